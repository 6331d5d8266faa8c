//! The character sets of the grammar: token, host name, field value (RFC 9110 section 5.6, RFC 3986 section 2).

const TOKEN: u8 = 1;
const HOST: u8 = 2;
const VISIBLE: u8 = 4;
const VALUE: u8 = 8;

/// One bit per set and byte.
static SETS: [u8; 256] = sets();

const fn sets() -> [u8; 256] {
    let mut sets = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let is_alphanumeric = (byte as u8).is_ascii_alphanumeric();
        // RFC 9110 section 5.6.2: tchar.
        if is_alphanumeric || contains(b"!#$%&'*+-.^_`|~", byte as u8) {
            sets[byte] |= TOKEN;
        }
        // RFC 3986 section 3.2.2: reg-name without percent-encoding, which is checked separately.
        if is_alphanumeric || contains(b"-._~!$&'()*+,;=", byte as u8) {
            sets[byte] |= HOST;
        }
        if byte > 0x20 && byte < 0x7f {
            sets[byte] |= VISIBLE;
        }
        // RFC 9110 section 5.5: visible characters, space, tab, and bytes above ASCII.
        if byte >= 0x80 || byte == 0x09 || (byte >= 0x20 && byte != 0x7f) {
            sets[byte] |= VALUE;
        }
        byte += 1;
    }
    sets
}

const fn contains(set: &[u8], byte: u8) -> bool {
    let mut at = 0;
    while at < set.len() {
        if set[at] == byte {
            return true;
        }
        at += 1;
    }
    false
}

#[inline]
pub fn is_token_byte(byte: u8) -> bool {
    SETS[usize::from(byte)] & TOKEN != 0
}

#[inline]
pub fn is_host_byte(byte: u8) -> bool {
    SETS[usize::from(byte)] & HOST != 0
}

#[inline]
pub fn is_visible(byte: u8) -> bool {
    SETS[usize::from(byte)] & VISIBLE != 0
}

/// token = 1*tchar
#[inline]
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && are_all_in(TOKEN, text)
}

#[inline]
pub fn is_value_byte(byte: u8) -> bool {
    SETS[usize::from(byte)] & VALUE != 0
}

/// Whether a field may have this value.
#[inline]
pub fn is_value(text: &[u8]) -> bool {
    are_all_in(VALUE, text)
}

/// Looks at all bytes, whatever comes first, because a branch for each costs more.
#[inline]
fn are_all_in(set: u8, text: &[u8]) -> bool {
    let (fours, rest) = text.as_chunks::<4>();
    let sets = |byte: u8| SETS[usize::from(byte)];
    let left =
        fours.iter().fold(set, |left, &[a, b, c, d]| left & sets(a) & sets(b) & sets(c) & sets(d));
    rest.iter().fold(left, |left, &byte| left & sets(byte)) != 0
}

/// `text` without the optional white space around it (RFC 9110 section 5.6.3: space and tab only).
#[inline]
pub fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// Whether a field's name or value is this word in any case. `lower` has lower-case letters and hyphens.
///
/// Setting one bit converts capital letters to lower case and keeps the hyphen. The other bytes that become a letter
/// or a hyphen are control characters, which no name or value contains. Whole words are compared in one step.
#[inline]
pub fn is_name<const LEN: usize>(text: &[u8], lower: [u8; LEN]) -> bool {
    const SMALL: u64 = u64::from_ne_bytes([0x20; 8]);
    const { assert!(LEN >= 4, "words of four bytes are the smallest") };
    let Ok(text) = <&[u8; LEN]>::try_from(text) else {
        return false;
    };
    if LEN < 8 {
        // The two words overlap.
        let halves =
            |bytes: &[u8; LEN]| u64::from(four(bytes, 0)) << 32 | u64::from(four(bytes, LEN - 4));
        return halves(text) | SMALL == halves(&lower);
    }
    let mut at = 0;
    while at + 8 < LEN {
        if eight(text, at) | SMALL != eight(&lower, at) {
            return false;
        }
        at += 8;
    }
    eight(text, LEN - 8) | SMALL == eight(&lower, LEN - 8)
}

#[inline]
fn eight(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))
}

#[inline]
fn four(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_whatever_their_case() {
        for text in ["host", "HOST", "hOsT"] {
            assert!(is_name(text.as_bytes(), *b"host"));
        }
        assert!(is_name(b"Transfer-Encoding", *b"transfer-encoding"));
        assert!(is_name(b"UPGRADE", *b"upgrade"));
        assert!(is_name(b"Keep-Alive", *b"keep-alive"));
        for (at, _) in b"transfer-encoding".iter().enumerate() {
            for other in
                (b'!'..=b'~').filter(|other| other.to_ascii_lowercase() != b"transfer-encoding"[at])
            {
                let mut text = *b"transfer-encoding";
                text[at] = other;
                assert!(!is_name(&text, *b"transfer-encoding"), "{}", text.escape_ascii());
            }
        }
        assert!(!is_name(b"hos", *b"host"));
        assert!(!is_name(b"hosts", *b"host"));
    }
}
