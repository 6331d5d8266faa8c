//! `FieldList`: the fields of a head, in one piece of memory.

/// Names and values in the order in which they were received; names in lower case, those of pseudo fields with their
/// colon.
#[derive(Debug, Default)]
pub struct FieldList {
    text: Vec<u8>,
    /// The ends of name and value.
    ends: Vec<(u32, u32)>,
    /// Fields `cookie`: parts of one field, which may be sent apart (RFC 9113 section 8.2.3).
    cookies: usize,
    /// It was longer than allowed: the rest is missing.
    pub is_cut: bool,
}

impl FieldList {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds a field unless the list would become longer than allowed.
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8], most: usize, most_bytes: usize) {
        let is_cookie = name == b"cookie";
        let counted = self.len() - self.cookies.saturating_sub(1);
        let is_room = (counted < most || (is_cookie && self.cookies > 0))
            && self.text.len() + name.len() + value.len() <= most_bytes;
        let (true, Ok(name_end), Ok(end)) = (
            is_room && !self.is_cut,
            u32::try_from(self.text.len() + name.len()),
            u32::try_from(self.text.len() + name.len() + value.len()),
        ) else {
            self.is_cut = true;
            return;
        };
        if self.ends.is_empty() {
            self.text.reserve(256);
            self.ends.reserve(16);
        }
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        self.ends.push((name_end, end));
        self.cookies += usize::from(is_cookie);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(name_end, end)| {
            let (name_end, end) = (name_end as usize, end as usize);
            let field = (&self.text[start..name_end], &self.text[name_end..end]);
            start = end;
            field
        })
    }

    /// The value of the first field of this name.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }
}
