//! The files of the page. They are part of this program, and the same for every caller.

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

/// A file below `infra/webhookctl/web`, and its content.
struct Asset(&'static str, &'static str);

macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        &[$(Asset($name, include_str!(concat!("../../../web/", $name)))),*]
    };
}

const ASSETS: &[Asset] = assets![
    "app.css",
    "icon.svg",
    "index.html",
    "m/api.js",
    "m/body.js",
    "m/chart.js",
    "m/filter.js",
    "m/frame.js",
    "m/h.js",
    "m/keys.js",
    "m/kit.js",
    "m/live.js",
    "m/pages/coverage.js",
    "m/pages/dead.js",
    "m/pages/doctor.js",
    "m/pages/drift.js",
    "m/pages/event.js",
    "m/pages/flow.js",
    "m/pages/inbox.js",
    "m/pages/log.js",
    "m/pages/plan.js",
    "m/pages/quarantine.js",
    "m/pages/sources.js",
    "m/pages/status.js",
    "m/panel.js",
    "m/route.js",
    "m/shown.js",
    "m/table.js",
    "m/timeline.js",
    "m/verify.js",
    "m/words.js",
    "m/write.js",
];

/// Returns the file for this path, if there is one.
pub(super) fn find(path: &str, asked: &HeaderMap) -> Option<Response> {
    let name = match path {
        "/" => "index.html",
        "/index.html" => return None,
        path => path.strip_prefix('/')?,
    };
    let text = from_disk(name).or_else(|| built_in(name).map(str::to_owned))?;
    let tag = format!("\"{}\"", hex::encode(&Sha256::digest(&text)[..12]));
    let known = asked.get(header::IF_NONE_MATCH);
    if name != "index.html" && known.is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return Some(StatusCode::NOT_MODIFIED.into_response());
    }
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, kind(name).parse().ok()?);
    if name != "index.html" {
        headers.insert(header::CACHE_CONTROL, "no-cache".parse().ok()?);
        headers.insert(header::ETAG, tag.parse().ok()?);
    }
    Some((headers, Body::from(text)).into_response())
}

fn built_in(name: &str) -> Option<&'static str> {
    let mut assets = ASSETS.iter();
    assets.find(|asset| asset.0 == name).map(|asset| asset.1)
}

/// In a debug build, `MITT_WEB` names a folder with the files, for those who edit them.
fn from_disk(name: &str) -> Option<String> {
    if !cfg!(debug_assertions) {
        return None;
    }
    let folder = shared::base::env::env_var("MITT_WEB")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if name.contains("..") || !name.chars().all(plain) {
        return None;
    }
    std::fs::read_to_string(std::path::Path::new(&folder).join(name)).ok()
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, kind)| kind) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_folder_is_in_the_table() {
        fn below(folder: &Path, root: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    below(&path, root, found);
                } else {
                    let name = path.strip_prefix(root).unwrap();
                    found.push(name.to_str().unwrap().to_owned());
                }
            }
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        let mut found = Vec::new();
        below(&root, &root, &mut found);
        // These are for type checks, and not for the browser.
        let served = |name: &String| !matches!(name.rsplit('.').next(), Some("json" | "ts"));
        for name in found.iter().filter(|name| served(name)) {
            assert!(
                built_in(name).is_some(),
                "add {name} to ASSETS in src/verbs/console/assets.rs"
            );
        }
        for asset in ASSETS {
            // The name of SVG is not a request.
            let text = asset.1.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("://"), "{} requests another host", asset.0);
        }
    }
    #[test]
    fn lines_are_short_enough_to_read() {
        for asset in ASSETS {
            for (number, line) in asset.1.lines().enumerate() {
                let length = line.chars().count();
                assert!(length <= 120, "{}:{}: {length}", asset.0, number + 1);
            }
        }
    }
    /// The pages are compiled into the program, and a browser reads all of them at the first look.
    /// `make bench-console` prints what each file costs.
    #[test]
    fn the_pages_stay_small() {
        let whole: String = ASSETS.iter().map(|asset| asset.1).collect();
        let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut zipped, whole.as_bytes()).unwrap();
        let zipped = zipped.finish().unwrap().len();
        assert!(whole.len() <= 163_500, "{} bytes", whole.len());
        assert!(zipped <= 52_900, "{zipped} bytes compressed");
    }
}
