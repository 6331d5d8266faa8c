//! Responses: reading their heads, and writing them.

mod date;
mod reading;
mod reasons;
mod writing;

pub use date::{http_date, parse_date};
pub use reading::{Asked, Response, parse_response};
pub use reasons::reason_phrase;
pub use writing::{
    Blame, Unwritable, write_chunk_head, write_field, write_head, write_last_chunk,
    write_status_line,
};
