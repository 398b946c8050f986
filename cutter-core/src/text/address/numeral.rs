//! Numerals as documents print them, read as decimal digits (rule 2 of the addresses).

use alloc::string::{String, ToString};

/// The value of a Roman numeral written in its shortest form, I to MMMCMXCIX, in one case.
#[must_use]
pub fn roman(text: &str) -> Option<u32> {
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    let lower = text.bytes().all(|b| b.is_ascii_lowercase());
    if !lower && !text.bytes().all(|b| b.is_ascii_uppercase()) {
        return None;
    }
    let value_of = |b: u8| match b.to_ascii_uppercase() {
        b'I' => Some(1),
        b'V' => Some(5),
        b'X' => Some(10),
        b'L' => Some(50),
        b'C' => Some(100),
        b'D' => Some(500),
        b'M' => Some(1000),
        _ => None,
    };
    let mut total = 0u32;
    let mut largest = 0u32;
    for b in text.bytes().rev() {
        let value = value_of(b)?;
        if value < largest {
            total = total.checked_sub(value)?;
        } else {
            total += value;
            largest = value;
        }
    }
    (total > 0 && to_roman(total) == text.to_ascii_uppercase()).then_some(total)
}

fn to_roman(mut value: u32) -> String {
    const STEPS: [(u32, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut out = String::new();
    for (step, letters) in STEPS {
        while value >= step {
            out.push_str(letters);
            value -= step;
        }
    }
    out
}

/// The value of a Chinese, Japanese or Korean numeral up to 99,999,999: positional with
/// 十 百 千 万 (`一百二十`) or digit by digit (`二〇二四`).
#[must_use]
pub fn cjk(text: &str) -> Option<u32> {
    let digit = |c: char| match c {
        '〇' | '零' | '○' => Some(0),
        '一' | '壱' | '壹' => Some(1),
        '二' | '弐' | '贰' | '两' => Some(2),
        '三' | '参' | '叁' => Some(3),
        '四' | '肆' => Some(4),
        '五' | '伍' => Some(5),
        '六' | '陆' => Some(6),
        '七' | '柒' => Some(7),
        '八' | '捌' => Some(8),
        '九' | '玖' => Some(9),
        _ => None,
    };
    let unit = |c: char| match c {
        '十' | '拾' => Some(10u32),
        '百' | '佰' => Some(100),
        '千' | '仟' => Some(1000),
        _ => None,
    };
    if text.is_empty() {
        return None;
    }
    if text.chars().all(|c| digit(c).is_some()) {
        return text.chars().try_fold(0u32, |n, c| n.checked_mul(10)?.checked_add(digit(c)?));
    }
    let (mut total, mut block, mut pending) = (0u32, 0u32, None);
    for c in text.chars() {
        if let Some(value) = digit(c) {
            if pending.replace(value).is_some_and(|before| before != 0) {
                return None;
            }
        } else if let Some(factor) = unit(c) {
            block =
                block.checked_add(pending.take().filter(|&n| n != 0).unwrap_or(1).checked_mul(factor)?)?;
        } else if c == '万' || c == '萬' {
            let value = block.checked_add(pending.take().unwrap_or(0))?;
            total = total.checked_add(value.checked_mul(10_000)?)?;
            block = 0;
        } else {
            return None;
        }
    }
    total.checked_add(block)?.checked_add(pending.unwrap_or(0))
}

/// Decimal digits of any width (`１２` is `12`) as ASCII; `None` where anything else stands.
#[must_use]
pub fn digits(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '0'..='9' => out.push(c),
            '０'..='９' => out.push(char::from_digit(u32::from(c) - u32::from('０'), 10)?),
            _ => return None,
        }
    }
    (!out.is_empty()).then_some(out)
}

/// Any of the above as ASCII digits.
#[must_use]
pub fn any_numeral(text: &str) -> Option<String> {
    digits(text).or_else(|| roman(text).or_else(|| cjk(text)).map(|n| n.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_roman_number_reads_back() {
        for n in 1..4000 {
            assert_eq!(roman(&to_roman(n)), Some(n));
            assert_eq!(roman(&to_roman(n).to_lowercase()), Some(n));
        }
        for wrong in ["", "IIII", "VX", "IC", "Iv", "A", "IVI", "MMMM"] {
            assert_eq!(roman(wrong), (wrong == "MMMM").then_some(4000), "{wrong}");
        }
    }

    #[test]
    fn cjk_numbers() {
        for (text, n) in [
            ("一", 1),
            ("十", 10),
            ("十二", 12),
            ("二十", 20),
            ("一百二十", 120),
            ("一百零三", 103),
            ("二〇二四", 2024),
            ("一千二百六十", 1260),
            ("三万五千", 35_000),
        ] {
            assert_eq!(cjk(text), Some(n), "{text}");
        }
        assert_eq!(cjk("条"), None);
        assert_eq!(cjk("一二十"), None);
        assert_eq!(cjk(""), None);
    }

    #[test]
    fn widths() {
        assert_eq!(digits("１２3").as_deref(), Some("123"));
        assert_eq!(any_numeral("XIV").as_deref(), Some("14"));
        assert_eq!(any_numeral("百").as_deref(), Some("100"));
        assert_eq!(any_numeral("x1"), None);
    }
}
