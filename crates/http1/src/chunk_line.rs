//! `ChunkLine`: parses the line before a chunk byte by byte: its size and extensions (RFC 9112 section 7.1).
//!
//! ```text
//! Size ── hex digits ──▶ Size     Size, Bws, Name, AfterName, Token, AfterQuoted ── CR ──▶ Lf ── LF ──▶ done
//!   └ ";" ▶ BeforeName ▶ Name ── "=" ▶ BeforeValue ▶ Token, or Quoted ⇄ Escaped ── '"' ▶ AfterQuoted
//!                └── ";" after each of them: the next one
//! ```

use crate::characters::{is_token_byte, is_value_byte};
use crate::refusal::Refusal;

/// The number of digits that fit into 64 bits.
const MOST_DIGITS: u8 = 16;

/// The maximum length of a chunk's extensions, whose content is ignored.
const EXTENSION_BYTES: u16 = 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Size,
    /// White space before a semicolon, which the grammar allows as bad white space (RFC 9110 section 5.6.3).
    Bws,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Token,
    Quoted,
    Escaped,
    AfterQuoted,
    Lf,
}

#[derive(Debug, Default)]
pub struct ChunkLine {
    pub size: u64,
    state: State,
    digits: u8,
    extension_bytes: u16,
}

impl ChunkLine {
    /// Takes a byte. Returns whether it was the line's last.
    #[inline]
    pub fn take(&mut self, byte: u8) -> Result<bool, Refusal> {
        if self.state == State::Size {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                b'A'..=b'F' => byte - b'A' + 10,
                _ if self.digits == 0 => return Err(Refusal::bad("a chunk has no size")),
                b'\r' => {
                    self.state = State::Lf;
                    return Ok(false);
                }
                _ => {
                    self.take_extension(byte)?;
                    return Ok(false);
                }
            };
            if self.digits == MOST_DIGITS {
                return Err(Refusal::bad("a chunk size has too many digits"));
            }
            self.digits += 1;
            self.size = self.size << 4 | u64::from(digit);
            return Ok(false);
        }
        if self.state == State::Lf {
            return if byte == b'\n' {
                Ok(true)
            } else {
                Err(Refusal::bad("a chunk line ends in a bare CR"))
            };
        }
        self.take_extension(byte)?;
        Ok(false)
    }

    /// chunk-ext = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )
    fn take_extension(&mut self, byte: u8) -> Result<(), Refusal> {
        use State::{
            AfterName, AfterQuoted, BeforeName, BeforeValue, Bws, Escaped, Lf, Name, Quoted, Size,
            Token,
        };
        self.extension_bytes += 1;
        if self.extension_bytes > EXTENSION_BYTES {
            return Err(Refusal::bad("a chunk's extensions are too long"));
        }
        let is_space = matches!(byte, b' ' | b'\t');
        self.state = match (self.state, byte) {
            // White space without a following semicolon is not in the grammar: a CR is invalid in these states.
            (Size | Bws | AfterName | Name | Token | AfterQuoted, b';') => BeforeName,
            (Size | Bws | Token | AfterQuoted, _) if is_space => Bws,
            (BeforeName, _) if is_space => BeforeName,
            (BeforeName | Name, _) if is_token_byte(byte) => Name,
            (Name | AfterName, _) if is_space => AfterName,
            (Name | AfterName, b'=') => BeforeValue,
            (BeforeValue, _) if is_space => BeforeValue,
            (BeforeValue, b'"') => Quoted,
            (BeforeValue | Token, _) if is_token_byte(byte) => Token,
            (Quoted, b'"') => AfterQuoted,
            (Quoted, b'\\') => Escaped,
            (Quoted | Escaped, _) if is_value_byte(byte) => Quoted,
            (Name | Token | AfterQuoted, b'\r') => Lf,
            (Size | Bws, _) => return Err(Refusal::bad("a chunk size is malformed")),
            _ => return Err(Refusal::bad("a chunk extension is malformed")),
        };
        Ok(())
    }
}
