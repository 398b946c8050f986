//! ASCII armor to bytes: one block, of the expected type, whole.
//!
//! A CRC24 is not asked for, but a wrong one refuses the block, as it does for `gpg`.

use std::io::Read as _;

use pgp::armor::{BlockType, Dearmor, DearmorOptions};

/// Decodes one armored block of `expected` type. Text behind the block is refused.
pub(super) fn decode(text: &[u8], expected: BlockType, limit: usize) -> Result<Vec<u8>, String> {
    if text.len() > limit {
        return Err(format!("{} bytes of armor, expected at most {limit}", text.len()));
    }
    let options = DearmorOptions::new().set_limit(limit);
    let mut reader = Dearmor::with_options(text, options);
    reader.read_header().map_err(|e| e.to_string())?;
    match reader.typ {
        Some(observed) if observed == expected => {}
        observed => return Err(format!("expected an armored {expected}, observed {observed:?}")),
    }
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    let (_, _, _, mut rest) = reader.into_parts();
    let mut tail = Vec::new();
    rest.read_to_end(&mut tail).map_err(|e| e.to_string())?;
    if tail.iter().any(|b| !b.is_ascii_whitespace()) {
        return Err("text behind the armored block".to_owned());
    }
    match stated_checksum(text) {
        Some(stated) if stated != crc24(&bytes) => Err("wrong checksum (CRC24)".to_owned()),
        _ => Ok(bytes),
    }
}

/// The bytes of an armored block that was damaged on its way, as far as they read: without its end line or its
/// checksum, with another line in its place, or with its signs quoted as mail programs do. Nothing may rest on them
/// but who may have meant something.
pub(super) fn decode_damaged(text: &[u8]) -> Vec<u8> {
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).skip(1);
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0u32);
    for line in lines.skip_while(|line| line.is_empty() || line.contains(&b':')) {
        if line.starts_with(b"=") {
            continue;
        }
        for byte in line {
            let Some(six) = six_bits(*byte) else { break };
            (bits, held) = (bits << 6 | six, held + 6);
            if held >= 8 {
                held -= 8;
                bytes.extend(u8::try_from(bits >> held & 0xFF));
            }
            bits &= 0xFFFF;
        }
        if line.starts_with(b"-") || line.contains(&b'=') {
            break;
        }
    }
    bytes
}

fn six_bits(byte: u8) -> Option<u32> {
    let six = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(six))
}

/// The value of the `=XXXX` line, where there is one.
fn stated_checksum(text: &[u8]) -> Option<u32> {
    let line = text.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).find(|l| l.len() == 5 && l[0] == b'=')?;
    line[1..].iter().try_fold(0u32, |sum, byte| Some(sum << 6 | six_bits(*byte)?))
}

/// RFC 9580 §6.1.1.
fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = 0x00B7_04CE_u32;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0186_4CFB;
            }
        }
    }
    crc & 0x00FF_FFFF
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_checksum() {
        assert_eq!(crc24(b"123456789"), 0x0021_CF02);
        assert_eq!(stated_checksum(b"abc\n=AAAB\r\n-----"), Some(1));
        assert_eq!(stated_checksum(b"abc\n"), None);
    }
}
