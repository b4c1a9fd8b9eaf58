//! Signatures of Gemini's thoughts: encrypted, so their length is all that they tell, and whether
//! the thoughts came in one piece.
use crate::media::decode_base64_head;

/// Length of the signatures of thoughts in a message, in characters of base64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// Of all.
    pub bytes: usize,
    /// Of those that hold their thoughts in several pieces.
    pub pieced_bytes: usize,
}

/// Bytes that encryption adds to a piece, and that begin it: a shorter piece has no text.
const PIECE_FRAME_BYTES: usize = 36;

/// Before each piece: a field of a protocol buffer, number 1, with its length.
const PIECE_TAG: u8 = 10;

impl Signature {
    /// Adds that of one part; an empty one is none.
    pub(super) fn add(&mut self, signature: &str) {
        if !signature.is_empty() {
            self.join(Signature {
                bytes: signature.len(),
                pieced_bytes: if is_pieced(signature) {
                    signature.len()
                } else {
                    0
                },
            });
        }
    }

    /// Adds those of another message.
    pub(crate) fn join(&mut self, other: Signature) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.pieced_bytes = self.pieced_bytes.saturating_add(other.pieced_bytes);
    }
}

/// True if the thoughts in `signature` are in several pieces with text. Linear in it.
fn is_pieced(signature: &str) -> bool {
    has_pieces(&decode_base64_head(signature, signature.len()))
}

fn has_pieces(bytes: &[u8]) -> bool {
    let (mut rest, mut piece_count) = (bytes, 0);
    while let Some((length, after)) = piece(rest) {
        piece_count += usize::from(length > PIECE_FRAME_BYTES);
        rest = after;
    }
    rest.is_empty() && piece_count > 1
}

/// The length of the first piece, and what is behind it; none if `bytes` begin with no whole one.
fn piece(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut rest = bytes.strip_prefix(&[PIECE_TAG])?;
    let mut length = 0;
    for shift in [0, 7, 14, 21] {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        length |= usize::from(byte & 127) << shift;
        if byte < 128 {
            return Some((length, rest.get(length..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_pieced_at(lengths: &[u8]) -> bool {
        let piece = |&length: &u8| {
            let head = [PIECE_TAG, length | 128, 1];
            head.into_iter().chain(vec![7; usize::from(length) + 128])
        };
        has_pieces(&lengths.iter().flat_map(piece).collect::<Vec<_>>())
    }

    #[test]
    fn thoughts_in_several_pieces_are_told_apart() {
        assert!(!is_pieced_at(&[]) && !is_pieced_at(&[80]) && is_pieced_at(&[80, 3]));
        let short = [&[PIECE_TAG, 36][..], &[7; 36], &[PIECE_TAG, 40], &[7; 40]].concat();
        assert!(!has_pieces(&short));
        assert!(has_pieces(
            &[short, [&[PIECE_TAG, 37][..], &[7; 37]].concat()].concat()
        ));
    }

    #[test]
    fn what_is_no_signature_has_a_length_and_no_pieces() {
        for text in ["?", "Cg==", "CgI=", "c2lnbmF0dXJl", "CoCAgICAAAAAAA=="] {
            let mut signature = Signature::default();
            signature.add(text);
            let (bytes, pieced_bytes) = (text.len(), 0);
            assert_eq!(
                signature,
                Signature {
                    bytes,
                    pieced_bytes
                }
            );
        }
    }
}
