//! Decodes a body with the chunked coding (RFC 9112, 7.1), wherever the stream is split.

use crate::fault::Fault;

/// No line of the coding is longer in what a server sends here.
const LONGEST_LINE: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Size,
    Data { left: usize },
    EndOfData,
    Trailer,
    Over,
}

#[derive(Debug)]
pub struct Chunked {
    part: Part,
    /// A line as far as it has come.
    line: Vec<u8>,
}

fn wrong(what: &str) -> Fault {
    Fault::BadResponse { what: format!("chunked coding: {what}") }
}

fn size_in(line: &[u8]) -> Result<usize, Fault> {
    let text = std::str::from_utf8(line).map_err(|_| wrong("a size is not text"))?;
    let digits = text.split(';').next().unwrap_or("").trim();
    usize::from_str_radix(digits, 16).map_err(|_| wrong("a size is no number"))
}

impl Default for Chunked {
    fn default() -> Self {
        Self { part: Part::Size, line: Vec::new() }
    }
}

impl Chunked {
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.part == Part::Over
    }

    /// Returns a piece of the body (it may be empty) and what stands behind it.
    pub fn take<'a>(&mut self, got: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Fault> {
        if let Part::Data { left } = self.part {
            let (data, rest) = got.split_at(left.min(got.len()));
            let left = left - data.len();
            self.part = if left == 0 { Part::EndOfData } else { Part::Data { left } };
            return Ok((data, rest));
        }
        let Some(end) = got.iter().position(|&byte| byte == b'\n') else {
            self.line.extend_from_slice(got);
            if self.line.len() > LONGEST_LINE {
                return Err(wrong("a line without an end"));
            }
            return Ok((&[], &[]));
        };
        self.line.extend_from_slice(&got[..end]);
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").ok_or_else(|| wrong("a line ends without CR"))?;
        self.part = match self.part {
            Part::Size => match size_in(line)? {
                0 => Part::Trailer,
                left => Part::Data { left },
            },
            Part::EndOfData if line.is_empty() => Part::Size,
            Part::EndOfData => return Err(wrong("a chunk is longer than its size")),
            Part::Trailer if line.is_empty() => Part::Over,
            other => other,
        };
        Ok((&[], &got[end + 1..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(coded: &[u8], cut: usize) -> Result<(Vec<u8>, bool), Fault> {
        let (mut decoder, mut body) = (Chunked::default(), Vec::new());
        for mut part in coded.chunks(cut) {
            while !part.is_empty() {
                let (data, rest) = decoder.take(part)?;
                body.extend_from_slice(data);
                part = rest;
            }
        }
        Ok((body, decoder.is_over()))
    }

    #[test]
    fn a_body_is_the_same_however_it_is_cut() {
        let coded = b"3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nSome: trailer\r\n\r\n";
        for cut in 1..=coded.len() {
            assert_eq!(decode(coded, cut).unwrap(), (b"abc0123456789".to_vec(), true));
        }
    }

    #[test]
    fn wrong_codings_are_refused() {
        for bad in ["3\r\nabcd\r\n", "x\r\n", "3\nabc"] {
            assert!(decode(bad.as_bytes(), 1).is_err(), "{bad}");
        }
        assert!(!decode(b"3\r\nabc\r\n", 4).unwrap().1);
    }
}
