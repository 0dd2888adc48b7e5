//! The file of a cache as the engine sees it: each page is compared with its hash when it is read.
//!
//! Contract: while the file is open, memory holds a hash over the place and the bytes of each page that was read or
//! written. A page that is not the last one written at its place (a flipped bit, a page of another place, an old page)
//! is an error and never bytes. A close in order leaves the hashes behind the last page, and the next open uses them.
//! A file without hashes, as a crash leaves it, has to be checked by the engine when it is opened: each page states the
//! checksums of the pages below it. The engine alone does not check a file that was closed in order.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use redb::StorageBackend;

use super::backend::Backend;
use crate::contract::hash::Hasher;
use crate::os::DiskFile;

/// Bytes of a page of the engine.
const PAGE: usize = 4096;
/// The hash of a page that was not read or written yet.
const UNKNOWN: u64 = 0;
/// The end of the hashes: how long the pages are, a seal over all before it, and a name.
const END_BYTES: usize = 8 + SEAL_BYTES + NAME.len();
const SEAL_BYTES: usize = 16;
const NAME: &[u8; 8] = b"pagesums";

/// A locked file whose pages are checked.
#[derive(Debug)]
pub(super) struct CheckedPages {
    file: Backend,
    pages: Mutex<Pages>,
}

#[derive(Debug)]
struct Pages {
    /// Bytes that the engine knows of.
    len: u64,
    sums: Vec<u64>,
    /// Whether each page is known to be what was written.
    are_sound: bool,
}

impl CheckedPages {
    /// Takes a file, and says whether the hashes of its last close hold. If they do not, the engine has to check it.
    pub(super) fn open(file: Arc<dyn DiskFile>) -> io::Result<(CheckedPages, bool)> {
        let file = Backend(file);
        let left = left_sums(&file)?;
        let is_known = left.is_some();
        let sums = match left {
            Some(sums) => {
                file.set_len(bytes(sums.len()))?;
                sums
            }
            None => Vec::new(),
        };
        let len = file.len()?;
        let mut pages = Pages { len, sums, are_sound: true };
        pages.resize(len);
        Ok((CheckedPages { file, pages: Mutex::new(pages) }, is_known))
    }

    /// Reads whole pages, the last one up to the end of the file.
    fn read_pages(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)?;
        self.pages.lock().compare(offset, out)
    }

    /// The whole pages around some bytes, and where the bytes begin in them.
    fn around(&self, offset: u64, len: usize) -> io::Result<(u64, usize, Vec<u8>)> {
        let within = usize::try_from(offset % PAGE as u64).unwrap_or_default();
        let from = offset - within as u64;
        let rest = self.pages.lock().len.saturating_sub(from);
        let whole = (within + len).next_multiple_of(PAGE);
        let whole = usize::try_from(rest).unwrap_or(usize::MAX).min(whole);
        if whole < within + len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut pages = vec![0; whole];
        self.read_pages(from, &mut pages)?;
        Ok((from, within, pages))
    }

    fn write_pages(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.pages.lock().note(offset, data);
        self.file.write(offset, data).inspect_err(|_| self.pages.lock().are_sound = false)
    }
}

fn is_whole(offset: u64, len: usize) -> bool {
    offset.is_multiple_of(PAGE as u64) && len.is_multiple_of(PAGE)
}

fn bytes(pages: usize) -> u64 {
    pages as u64 * PAGE as u64
}

fn index_of(offset: u64) -> usize {
    usize::try_from(offset / PAGE as u64).unwrap_or(usize::MAX)
}

fn sum_of(index: usize, page: &[u8]) -> u64 {
    let hash = Hasher::new().update((index as u64).to_le_bytes()).update(page).finish();
    hash.0.first_chunk().map_or(UNKNOWN, |head| u64::from_le_bytes(*head)).max(UNKNOWN + 1)
}

impl Pages {
    fn resize(&mut self, len: u64) {
        // A last page that is cut or filled up has another hash.
        for cut in [self.len, len] {
            if let Some(sum) = self.sums.get_mut(index_of(cut)).filter(|_| cut % PAGE as u64 > 0) {
                *sum = UNKNOWN;
            }
        }
        self.sums.resize(index_of(len.next_multiple_of(PAGE as u64)), UNKNOWN);
        self.len = len;
    }

    /// Compares pages with their hashes. What is not known yet is known from here on.
    fn compare(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        for (index, page) in (index_of(offset)..).zip(data.chunks(PAGE)) {
            let Some(known) = self.sums.get_mut(index) else { break };
            let found = sum_of(index, page);
            if *known != UNKNOWN && *known != found {
                self.are_sound = false;
                let what = format!("page {index} is not what was written there");
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            *known = found;
        }
        Ok(())
    }

    fn note(&mut self, offset: u64, data: &[u8]) {
        self.len = self.len.max(offset + data.len() as u64);
        for (index, page) in (index_of(offset)..).zip(data.chunks(PAGE)) {
            if self.sums.len() <= index {
                self.sums.resize(index + 1, UNKNOWN);
            }
            self.sums[index] = sum_of(index, page);
        }
    }

    /// What a close leaves behind the last page: whole pages, so that the engine alone can read the file too.
    fn to_leave(&self) -> Option<Vec<u8>> {
        if !self.are_sound || self.len != bytes(self.sums.len()) || self.sums.is_empty() {
            return None;
        }
        let mut left: Vec<u8> = self.sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        left.resize(left_len(self.sums.len()) - END_BYTES, 0);
        left.extend(self.len.to_le_bytes());
        left.extend(Hasher::new().update(&left).finish().head());
        left.extend(NAME);
        Some(left)
    }
}

/// Bytes that the hashes of so many pages take.
fn left_len(pages: usize) -> usize {
    (pages * 8 + END_BYTES).next_multiple_of(PAGE)
}

/// The hashes that the last close left, if they are whole and nobody changed the file since.
fn left_sums(file: &Backend) -> io::Result<Option<Vec<u64>>> {
    let all = file.len()?;
    let Some(end_at) = all.checked_sub(END_BYTES as u64) else { return Ok(None) };
    let mut end = [0; END_BYTES];
    file.read(end_at, &mut end)?;
    let len = end.first_chunk().map_or(0, |len| u64::from_le_bytes(*len));
    let count = index_of(len);
    let is_ours = end.ends_with(NAME)
        && len > 0
        && len < all
        && len == bytes(count)
        && len + left_len(count) as u64 == all;
    if !is_ours {
        return Ok(None);
    }
    let mut left = vec![0; left_len(count)];
    file.read(len, &mut left)?;
    let (sealed, end) = left.split_at(left.len() - NAME.len() - SEAL_BYTES);
    if end[..SEAL_BYTES] != Hasher::new().update(sealed).finish().head() {
        return Ok(None);
    }
    let sums: Vec<u64> = sealed.as_chunks().0.iter().map(|sum| u64::from_le_bytes(*sum)).collect();
    // The first page changes with each opening and each commit.
    let mut first = vec![0; PAGE];
    file.read(0, &mut first)?;
    let is_as_closed = sums.first() == Some(&sum_of(0, &first));
    Ok(is_as_closed.then(|| sums[..count].to_vec()))
}

impl StorageBackend for CheckedPages {
    fn len(&self) -> io::Result<u64> {
        Ok(self.pages.lock().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if is_whole(offset, out.len()) {
            return self.read_pages(offset, out);
        }
        let (_, within, pages) = self.around(offset, out.len())?;
        out.copy_from_slice(&pages[within..within + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut pages = self.pages.lock();
        pages.resize(len);
        self.file.set_len(len).inspect_err(|_| pages.are_sound = false)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if is_whole(offset, data.len()) {
            return self.write_pages(offset, data);
        }
        let (from, within, mut pages) = self.around(offset, data.len())?;
        pages[within..within + data.len()].copy_from_slice(data);
        self.write_pages(from, &pages)
    }

    fn close(&self) -> io::Result<()> {
        let pages = self.pages.lock();
        if let Some(left) = pages.to_leave()
            && let Err(error) = self.file.write(pages.len, &left)
        {
            tracing::info!(%error, "the next start checks a whole cache");
        }
        self.file.close()
    }
}
