//! `apply`: the masking of payloads (RFC 6455 section 5.3).

/// XORs `bytes` with the repeated key. Masking and unmasking are the same operation.
///
/// Sixteen bytes at a time: the compiler turns the loop into vector instructions.
pub fn apply(bytes: &mut [u8], key: [u8; 4]) {
    let wide = u128::from_ne_bytes([
        key[0], key[1], key[2], key[3], key[0], key[1], key[2], key[3], key[0], key[1], key[2],
        key[3], key[0], key[1], key[2], key[3],
    ]);
    let mut chunks = bytes.chunks_exact_mut(16);
    for chunk in &mut chunks {
        let mut lane = [0; 16];
        lane.copy_from_slice(chunk);
        chunk.copy_from_slice(&(u128::from_ne_bytes(lane) ^ wide).to_ne_bytes());
    }
    for (byte, key) in chunks.into_remainder().iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
}

/// The key after `len` bytes, for a payload that arrives in pieces.
pub fn rotated(mut key: [u8; 4], len: usize) -> [u8; 4] {
    key.rotate_left(len % 4);
    key
}

#[cfg(test)]
mod tests {
    use super::{apply, rotated};

    #[test]
    fn every_length_and_every_cut() {
        let key = [0x12, 0x34, 0x56, 0x78];
        let plain: Vec<u8> = (0..100).collect();
        let masked: Vec<u8> =
            plain.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
        for len in 0..=plain.len() {
            for cut in 0..=len {
                let mut bytes = masked[..len].to_vec();
                let (left, right) = bytes.split_at_mut(cut);
                apply(left, key);
                apply(right, rotated(key, cut));
                assert_eq!(bytes, plain[..len]);
            }
        }
    }
}
