//! The one text of a number: what Python's `json.dumps(json.loads(text))` gives.
use std::fmt::Write;

/// Python writes a float with an exponent below 1e-4 and from 1e16 on (`float.__repr__`).
const POSITIONAL: std::ops::Range<i32> = -4..16;

/// Appends `number` as Python's `json.dumps` writes it: `1.0`, `1e-07`, `NaN`, `-Infinity`.
pub fn write_float(number: f64, out: &mut String) {
    if number.is_nan() {
        return out.push_str("NaN");
    }
    if number.is_sign_negative() {
        out.push('-');
    }
    if number.is_infinite() {
        return out.push_str("Infinity");
    }
    write_finite(number.abs(), out);
}

fn write_finite(number: f64, out: &mut String) {
    let text = shortest(number);
    let Some((mantissa, exponent)) = text.as_str().split_once('e') else {
        return;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if POSITIONAL.contains(&exponent) {
        write_positional(mantissa, exponent, out);
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.unsigned_abs());
    }
}

/// The fewest digits that read back as `number`, as `d.ddde-7`.
///
/// Where two such texts are equally near, Rust takes the larger and Python the even one, which
/// is the number rounded exactly. That needs digits near the limit of a float; no number with
/// fewer than 15 lies in the middle of two others that read back as itself.
fn shortest(number: f64) -> Stack {
    let mut shortest = Stack::default();
    let _ = write!(shortest, "{number:e}");
    let mantissa = shortest.as_str().split('e').next().unwrap_or_default();
    let decimals = mantissa.len().saturating_sub("d.".len());
    if decimals < 14 {
        return shortest;
    }
    let mut even = Stack::default();
    let _ = write!(even, "{number:.decimals$e}");
    match even.as_str().parse() == Ok(number) {
        true => even,
        false => shortest,
    }
}

fn write_positional(mantissa: &str, exponent: i32, out: &mut String) {
    let digits = mantissa.bytes().filter(|&b| b != b'.').map(char::from);
    if exponent < 0 {
        out.push_str("0.");
        out.extend((exponent + 1..0).map(|_| '0'));
        return out.extend(digits);
    }
    let whole = exponent.unsigned_abs() as usize + 1;
    out.extend(digits.clone().chain(std::iter::repeat('0')).take(whole));
    out.push('.');
    let before = out.len();
    out.extend(digits.skip(whole));
    if out.len() == before {
        out.push('0');
    }
}

/// Text on the stack. A float has at most 17 digits, so that its text fits.
#[derive(Default)]
struct Stack {
    bytes: [u8; 32],
    len: usize,
}

impl Stack {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl Write for Stack {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        let free = self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        free.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}
