//! Queue lines that the lost log had cut off unfinished.

use std::collections::BTreeSet;

use crate::seam::tail::{Batch, LineForm, LineSpan};

/// Splits lines where an unfinished line had been cut off before more was appended. `shift` is the
/// number of lines that earlier cuts added; the new number is returned.
pub(crate) fn cut_where_cut(batch: &mut Batch, cuts: &BTreeSet<u64>, mut shift: u64) -> u64 {
    let mut lines = Vec::with_capacity(batch.lines.len());
    for mut line in std::mem::take(&mut batch.lines) {
        let end = line.offset + line.length;
        let inside: Vec<u64> = match line.form {
            LineForm::Whole => cuts.range(line.offset + 1..=end).copied().collect(),
            _ => Vec::new(),
        };
        line.number += shift;
        for cut in inside {
            let length = cut - line.offset;
            let middle = line.range.start + length as usize;
            lines.push(LineSpan {
                number: line.number,
                offset: line.offset,
                length,
                range: line.range.start..middle,
                form: LineForm::Partial,
            });
            line = LineSpan {
                number: line.number + 1,
                offset: cut,
                length: line.length - length,
                range: middle..line.range.end,
                form: LineForm::Whole,
            };
            shift += 1;
        }
        lines.push(line);
    }
    batch.lines = lines;
    batch.end.lines += shift;
    shift
}
