//! Folders that are served before the application.
//!
//! | file | contents |
//! |---|---|
//! | `folders` | `StaticFiles`: finds a file without blocking |
//! | `wanted` | decides which file is sent, and which part of it |
//! | `multipart` | several parts of a file as one body |
//! | `lookup` | finds it on a thread |

pub mod folders;
pub mod lookup;
pub mod multipart;
pub mod wanted;
