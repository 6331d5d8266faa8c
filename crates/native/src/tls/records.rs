//! `Records`: counts complete TLS records in the input (RFC 8446, 5.1), to avoid reads without data: OpenSSL answers
//! those with an exception, which costs half as much as a message.

const HEADER: usize = 5;
/// The maximum body of a record: TLS 1.2 allows 2,048 bytes more than the plaintext.
const MOST: usize = 16 * 1024 + 2048;

#[derive(Default)]
pub struct Records {
    header: [u8; HEADER],
    header_len: usize,
    /// Bytes of the body that are still missing.
    left: usize,
    /// Received bytes of an incomplete record.
    started: usize,
    /// Complete records that may not have been read. Never too few.
    whole: usize,
    /// This is not TLS; the library reports the error.
    is_garbage: bool,
}

impl Records {
    pub fn add(&mut self, mut data: &[u8]) {
        while !data.is_empty() && !self.is_garbage {
            if self.left == 0 {
                let taken = data.len().min(HEADER - self.header_len);
                self.header[self.header_len..self.header_len + taken]
                    .copy_from_slice(&data[..taken]);
                self.header_len += taken;
                self.started += taken;
                data = &data[taken..];
                if self.header_len < HEADER {
                    return;
                }
                self.header_len = 0;
                let [kind, version, _, high, low] = self.header;
                self.left = usize::from(u16::from_be_bytes([high, low]));
                self.is_garbage = !(20..=24).contains(&kind) || version != 3 || self.left > MOST;
            }
            let taken = data.len().min(self.left);
            self.left -= taken;
            self.started += taken;
            data = &data[taken..];
            if self.left == 0 {
                self.whole += 1;
                self.started = 0;
            }
        }
    }

    /// Whether a read may return something.
    pub fn may_read(&self) -> bool {
        self.whole > 0 || self.is_garbage
    }

    /// Received bytes of an incomplete record.
    pub fn started(&self) -> usize {
        self.started
    }

    /// A read has used at least one record.
    pub fn read_one(&mut self) {
        self.whole = self.whole.saturating_sub(1);
    }

    /// The library has used all complete records.
    pub fn read_all(&mut self) {
        self.whole = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, len: u16) -> Vec<u8> {
        let mut bytes = vec![kind, 3, 3];
        bytes.extend(len.to_be_bytes());
        bytes.resize(HEADER + usize::from(len), 7);
        bytes
    }

    #[test]
    fn records_are_counted_however_they_are_cut() {
        let bytes = [record(22, 300), record(23, 1), record(23, 0), record(21, 2)].concat();
        for size in 1..bytes.len() {
            let mut records = Records::default();
            bytes.chunks(size).for_each(|piece| records.add(piece));
            assert_eq!((records.whole, records.started), (4, 0), "{size}");
        }
    }

    #[test]
    fn the_rest_is_one_that_has_begun() {
        let mut records = Records::default();
        records.add(&record(23, 100)[..50]);
        assert!(!records.may_read());
        assert_eq!(records.started(), 50);
    }

    #[test]
    fn what_is_no_tls_is_for_the_library_to_refuse() {
        for bytes in [&b"GET / HTTP/1.1\r\n"[..], &[23, 2, 3, 0, 1], &[23, 3, 3, 0x48, 1]] {
            let mut records = Records::default();
            records.add(bytes);
            assert!(records.may_read());
        }
    }
}
