//! Stores an object as one file in the folder of its bucket: a line of JSON metadata, then the
//! bytes.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use md5::{Digest, Md5};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use crate::names::random_hex;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Meta {
    pub(super) key: String,
    pub(super) content_type: String,
    pub(super) etag: String,
    pub(super) modified_ms: i64,
    pub(super) user: BTreeMap<String, String>,
    /// The tags, in the form `key=value&…`.
    #[serde(default)]
    pub(super) tags: String,
}

pub(super) struct Bucket(PathBuf);

/// The encoded name contains no `/` and no dot, so a key cannot leave its folder.
const SAFE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

impl Bucket {
    pub(super) fn open(folder: PathBuf) -> Option<Self> {
        folder.is_dir().then_some(Self(folder))
    }

    fn path(&self, key: &str) -> PathBuf {
        let encoded = utf8_percent_encode(key, SAFE).to_string();
        if encoded.len() <= 200 {
            return self.0.join(encoded);
        }
        // File names have a length limit. The metadata contains the whole key.
        self.0
            .join(hex::encode(sha2::Sha256::digest(key.as_bytes())))
    }

    pub(super) fn read(&self, key: &str) -> io::Result<Option<(Meta, Bytes)>> {
        match fs::read(self.path(key)) {
            Ok(bytes) => parse(&Bytes::from(bytes)).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes an object durably: syncs the bytes first, and then the file name.
    pub(super) fn write(&self, meta: &Meta, body: &[u8]) -> io::Result<()> {
        let draft = self.0.join(format!(".{}", random_hex(8)));
        let mut file = File::create(&draft)?;
        serde_json::to_writer(&mut file, meta)?;
        file.write_all(b"\n")?;
        file.write_all(body)?;
        file.sync_all()?;
        fs::rename(&draft, self.path(&meta.key))?;
        File::open(&self.0)?.sync_all()
    }

    pub(super) fn delete(&self, key: &str) -> io::Result<()> {
        match fs::remove_file(self.path(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn list(&self) -> io::Result<Vec<(Meta, usize)>> {
        let mut objects = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let path = entry?.path();
            if !is_draft(&path) {
                let (meta, body) = parse(&Bytes::from(fs::read(&path)?))?;
                objects.push((meta, body.len()));
            }
        }
        Ok(objects)
    }
}

fn is_draft(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

fn parse(file: &Bytes) -> io::Result<(Meta, Bytes)> {
    let end = file
        .iter()
        .position(|byte| *byte == b'\n')
        .ok_or_else(|| io::Error::other("an object file has no metadata line"))?;
    let meta = serde_json::from_slice(&file[..end])?;
    Ok((meta, file.slice(end + 1..)))
}

/// Returns the tags of an XML document in the form `key=value&…`.
pub(super) fn tags_in(xml: &str) -> String {
    let between = |text: &str, name: &str| {
        let text = text.split_once(&format!("<{name}>"))?.1;
        Some(text.split_once(&format!("</{name}>"))?.0.to_owned())
    };
    let tags = xml.split("<Tag>").skip(1).filter_map(|tag| {
        let (key, value) = (between(tag, "Key")?, between(tag, "Value")?);
        Some(format!("{key}={value}"))
    });
    tags.collect::<Vec<_>>().join("&")
}

pub(super) fn etag(body: &[u8]) -> String {
    format!("\"{}\"", hex::encode(Md5::digest(body)))
}

pub(super) fn http_date(ms: i64) -> String {
    time_of(ms)
        .strftime("%a, %d %b %Y %H:%M:%S GMT")
        .to_string()
}

pub(super) fn time_of(ms: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(ms).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_leaves_its_bucket() {
        let bucket = Bucket(PathBuf::from("/b"));
        for key in [
            "../x",
            "a/../../x",
            "/etc/passwd",
            ".hidden",
            &"é/".repeat(400),
        ] {
            assert_eq!(bucket.path(key).parent(), Some(Path::new("/b")), "{key}");
            assert!(!is_draft(&bucket.path(key)), "{key}");
        }
    }

    #[test]
    fn dates_are_what_http_wants() {
        assert_eq!(http_date(784_111_777_000), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
