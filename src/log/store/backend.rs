//! The engine's file, through our disk: the same path on a real machine and on a simulated one.

use std::fmt;
use std::io;
use std::sync::Arc;

use redb::StorageBackend;

use crate::os::DiskFile;

/// A locked file as the engine sees it.
pub(super) struct Backend(pub Arc<dyn DiskFile>);

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backend")
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.0.stat()?.len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let mut done = 0;
        while done < out.len() {
            match self.0.read_at(&mut out[done..], offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.0.write_all_at(data, offset)
    }

    fn close(&self) -> Result<(), io::Error> {
        self.0.unlock()
    }
}
