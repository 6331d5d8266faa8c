//! Sets of bytes that the grammar names: token, host name, field value (RFC 9110 section 5.6, RFC 3986 section 2).

const TOKEN: u8 = 1;
const HOST: u8 = 2;
const VISIBLE: u8 = 4;

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
        // RFC 3986 section 3.2.2: reg-name without percent-encoding, which is checked apart.
        if is_alphanumeric || contains(b"-._~!$&'()*+,;=", byte as u8) {
            sets[byte] |= HOST;
        }
        if byte > 0x20 && byte < 0x7f {
            sets[byte] |= VISIBLE;
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
    !text.is_empty() && text.iter().all(|&byte| is_token_byte(byte))
}

/// What a field value may hold (RFC 9110 section 5.5): visible characters, space, tab, and bytes above ASCII.
#[inline]
pub fn is_value_byte(byte: u8) -> bool {
    byte >= 0x80 || byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// `text` without the optional white space around it (RFC 9110 section 5.6.3: space and tab alone).
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

/// Whether a token is this name, whatever its case. `lower`: small letters and hyphens.
///
/// A bit makes small letters of capital ones and leaves the hyphen; of the other bytes that it makes a letter or a
/// hyphen of (control characters) none is a token's. Whole words are compared at once.
#[inline]
pub fn is_name<const LEN: usize>(token: &str, lower: [u8; LEN]) -> bool {
    let Ok(mut bytes) = <[u8; LEN]>::try_from(token.as_bytes()) else {
        return false;
    };
    for byte in &mut bytes {
        *byte |= 0x20;
    }
    bytes == lower
}
