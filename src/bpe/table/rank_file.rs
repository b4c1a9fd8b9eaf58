//! Rank files: a line for each token, base64 of its bytes, a space and its rank.

use std::fmt;

use crate::media::decode_base64_chunks;

/// Why a rank file was refused. Lines are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankFileError {
    /// A line is not base64, a space and a number below 2^32 - 1.
    Line(usize),
    /// A token or a rank was there before.
    Repeated(usize),
    /// A byte is no token, so that not every text has an encoding.
    MissingByte(u8),
}

impl fmt::Display for RankFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RankFileError::Line(line) => write!(
                f,
                "line {line} is not base64, a space and a rank; it must be a .tiktoken file"
            ),
            RankFileError::Repeated(line) => {
                write!(f, "line {line} has a token or a rank of an earlier line")
            }
            RankFileError::MissingByte(byte) => {
                write!(
                    f,
                    "no token is the byte {byte}; every single byte must be one"
                )
            }
        }
    }
}

impl std::error::Error for RankFileError {}

/// Calls `add` with line number, bytes and rank of each token; blank lines are skipped.
pub(in crate::bpe) fn read(
    content: &[u8],
    mut add: impl FnMut(usize, &[u8], u32) -> Result<(), RankFileError>,
) -> Result<(), RankFileError> {
    let mut token = Vec::new();
    for (line, number) in content.split(|&byte| byte == b'\n').zip(1..) {
        let line = line.trim_ascii_end();
        if line.is_empty() {
            continue;
        }
        let rank = read_line(line, &mut token).ok_or(RankFileError::Line(number))?;
        add(number, &token, rank)?;
    }
    Ok(())
}

/// The rank of a line, whose bytes are put into `token`.
fn read_line(line: &[u8], token: &mut Vec<u8>) -> Option<u32> {
    let (base64, rank) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    token.clear();
    let end = decode_base64_chunks(base64, |bytes| token.extend_from_slice(bytes));
    let rank = rank.parse().ok().filter(|&rank| rank < u32::MAX);
    rank.filter(|_| end.is_complete && !token.is_empty())
}
