//! Reads the processor time of a process and its log, and creates temporary folders.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context as _;

/// Returns the processor time of the threads of a process, from the scheduler statistics in
/// nanoseconds.
/// <https://docs.kernel.org/scheduler/sched-stats.html>
pub(crate) fn cpu(process: u32) -> anyhow::Result<Duration> {
    let tasks = format!("/proc/{process}/task");
    let tasks = fs::read_dir(&tasks).with_context(|| {
        format!("read {tasks}: the measurement needs Linux and a running process")
    })?;
    let mut sum = Duration::ZERO;
    for task in tasks {
        let path = task?.path().join("schedstat");
        // A thread may end while its statistics are read.
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let first = text.split_whitespace().next().unwrap_or_default();
        let nanos = first.parse();
        sum += Duration::from_nanos(nanos.with_context(|| path.display().to_string())?);
    }
    Ok(sum)
}

/// Returns the lines of a log after the first `from` bytes.
pub(crate) fn lines_since(log: &Path, from: usize) -> Vec<String> {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(text.get(from..).unwrap_or_default()).into_owned();
    text.lines().map(str::to_owned).collect()
}

pub(crate) fn length(log: &Path) -> usize {
    fs::metadata(log).map_or(0, |log| usize::try_from(log.len()).unwrap_or(usize::MAX))
}

/// A temporary folder, which is removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mitt-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_the_processor_time() {
        let here = std::process::id();
        let before = cpu(here).unwrap();
        let mut sum = 0_u64;
        while cpu(here).unwrap() < before + Duration::from_millis(2) {
            sum = (0..100_000).fold(sum, |sum, n| sum.wrapping_mul(31).wrapping_add(n));
        }
        assert!(cpu(here).unwrap() > before, "{sum}");
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(cpu(u32::MAX).is_err());
    }
}
