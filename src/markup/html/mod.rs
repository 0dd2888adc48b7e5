//! HTML: the text of a page, and the view of a text that may contain HTML.
//!
//! [`page()`] reads what is known to be HTML, as a browser does: every tag is a tag. [`View`] reads a
//! text of unknown origin, takes only what is certainly markup for markup, and maps places in the
//! result to places in the source. Both share the spelling of tags, the table of elements and the
//! character references.
//!
//! See docs/adr/0065-reading-markup-through-a-view.md.

mod elements;
mod entities;
mod page;
mod tag;
mod view;

pub(crate) use elements::has_closing_tag;
pub use page::page;
pub(crate) use page::{Page, article, unescape};
pub use view::{View, plain};
