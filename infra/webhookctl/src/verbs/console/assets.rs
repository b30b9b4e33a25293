//! The files of the page. They are part of this program, and the same for every caller.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
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
    "first.js",
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
    "m/pages/approvals.js",
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

/// The modules of the page as one script. `m/frame.js` imports all others.
const SCRIPT: &str = "console.js";

const PAGE: &str = "index.html";

const NOTHING: &str = "default-src 'none'";

/// What the page contains, with the line that stands for it in the source of the page. A browser
/// paints nothing before it has these, and a request for each of them would delay the first paint.
const CONTAINED: [(&str, &str, &str); 2] = [
    (
        "app.css",
        r#"<link rel="stylesheet" href="/app.css">"#,
        "style",
    ),
    ("first.js", r#"<script src="/first.js"></script>"#, "script"),
];

/// What the page loads.
const LOADED: [&str; 2] = ["icon.svg", SCRIPT];

/// What a browser requests for the page. The modules are there for tests, which import them alone.
struct Files {
    files: Vec<File>,
    policy: String,
}

struct File {
    name: &'static str,
    text: String,
    /// A hash of the text. The page adds it to the address, so that a browser can keep the file.
    tag: String,
}

/// Returns the file for this address, if there is one.
pub(super) fn find(uri: &Uri, asked: &HeaderMap) -> Option<Response> {
    let name = match uri.path() {
        "/" => PAGE,
        "/index.html" => return None,
        path => path.strip_prefix('/')?,
    };
    let files = files();
    let file = files.files.iter().find(|file| file.name == name)?;
    let kind = (header::CONTENT_TYPE, kind(name).to_owned());
    if name == PAGE {
        return Some(([kind], file.text.clone()).into_response());
    }
    let version = uri.query().and_then(|query| query.strip_prefix("v="));
    let cache = if version == Some(&file.tag) {
        "max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let tag = format!("\"{}\"", file.tag);
    let known = asked.get(header::IF_NONE_MATCH);
    let is_known = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
    // A browser takes these headers from a 304 response too.
    let head = [
        kind,
        (header::CACHE_CONTROL, cache.to_owned()),
        (header::ETAG, tag),
    ];
    Some(if is_known {
        (StatusCode::NOT_MODIFIED, head).into_response()
    } else {
        (head, file.text.clone()).into_response()
    })
}

/// Returns the content security policy of each response. It allows the style and the script that the
/// page contains by their hashes, and no other inline code.
pub(super) fn policy() -> HeaderValue {
    // The policy has only ASCII characters.
    HeaderValue::from_str(&files().policy).unwrap_or(HeaderValue::from_static(NOTHING))
}

/// In a debug build, `MITT_WEB` names a folder with the files, for those who edit them.
fn files() -> Arc<Files> {
    static BUILT_IN: LazyLock<Arc<Files>> =
        LazyLock::new(|| Arc::new(Files::new(&|name| built_in(name).map(str::to_owned))));
    let folder = cfg!(debug_assertions).then(|| shared::base::env::env_var("MITT_WEB"));
    let Some(folder) = folder.flatten() else {
        return Arc::clone(&BUILT_IN);
    };
    let folder = Path::new(&folder);
    Arc::new(Files::new(&|name| {
        std::fs::read_to_string(folder.join(name)).ok()
    }))
}

impl Files {
    fn new(read: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut page = read(PAGE).unwrap_or_default();
        let mut files = Vec::new();
        let hashes = CONTAINED.map(|(name, line, tag)| {
            let text = read(name).unwrap_or_default();
            page = page.replace(line, &format!("<{tag}>{text}</{tag}>"));
            BASE64.encode(Sha256::digest(&text))
        });
        let modules = ASSETS.iter().map(|asset| asset.0);
        let modules = modules.filter(|name| name.starts_with("m/"));
        for name in LOADED.into_iter().chain(modules) {
            let text = if name == SCRIPT {
                super::join::join("m/frame.js", read)
            } else {
                read(name).unwrap_or_default()
            };
            let tag = hex::encode(&Sha256::digest(&text)[..8]);
            page = page.replace(&format!("\"/{name}\""), &format!("\"/{name}?v={tag}\""));
            files.push(File { name, text, tag });
        }
        files.push(File {
            name: PAGE,
            text: page,
            tag: String::new(),
        });
        let [style, script] = hashes;
        let policy = format!(
            "{NOTHING}; script-src 'self' 'sha256-{script}'; style-src 'sha256-{style}'; img-src \
             'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors \
             'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        );
        Self { files, policy }
    }
}

fn built_in(name: &str) -> Option<&'static str> {
    let mut assets = ASSETS.iter();
    assets.find(|asset| asset.0 == name).map(|asset| asset.1)
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
    /// An imported name that does not exist would be `undefined`, because the script has no imports.
    #[test]
    fn each_module_is_in_the_script_and_exports_what_others_import() {
        fn exports(script: &str, module: &str) -> Vec<String> {
            let from = script.find(&format!("\nconst {module} = (() => {{\n"));
            let text = &script[from.unwrap_or_else(|| panic!("{module} is missing"))..];
            let text = text.split("\n// m/").next().unwrap();
            let (_, text) = text.rsplit_once("\nreturn { ").unwrap();
            let (names, _) = text.split_once(" };\n})();").unwrap();
            let names = names
                .split(", ")
                .flat_map(|name| match name.strip_prefix("...") {
                    Some(module) => exports(script, module),
                    None => vec![name.to_owned()],
                });
            names.collect()
        }
        let files = files();
        let script = &files
            .files
            .iter()
            .find(|file| file.name == SCRIPT)
            .unwrap()
            .text;
        for Asset(name, source) in ASSETS.iter().filter(|asset| asset.0.starts_with("m/")) {
            let mark = format!("// {name}\n");
            assert_eq!(script.matches(&mark).count(), 1, "no page needs {name}");
            let mut lines = source.lines().filter(|line| !line.contains("/*"));
            let code = lines.find(|line| line.contains("*/") && !line.ends_with("*/"));
            assert_eq!(code, None, "{name}: the script lacks code after a comment");
        }
        for line in script.lines() {
            assert!(
                !line.starts_with("import ") && !line.starts_with("export "),
                "{line}"
            );
            let names = line
                .strip_prefix("const { ")
                .and_then(|line| line.split_once(" } = $"));
            let Some((names, module)) = names else {
                continue;
            };
            let known = exports(script, &format!("${}", module.trim_end_matches(';')));
            for name in names.split(", ") {
                let name = name
                    .split(": ")
                    .next()
                    .unwrap()
                    .trim_end_matches(',')
                    .to_owned();
                assert!(known.contains(&name), "{module} exports no {name}");
            }
        }
    }

    #[test]
    fn a_browser_keeps_a_file_until_it_changes() {
        let asked = HeaderMap::new();
        let page = find(&Uri::from_static("/"), &asked).unwrap();
        assert_eq!(page.headers().get(header::CACHE_CONTROL), None);
        let files = files();
        for file in files
            .files
            .iter()
            .filter(|file| LOADED.contains(&file.name))
        {
            let (name, tag) = (file.name, &file.tag);
            let of = |address: String, asked: &HeaderMap| {
                let response = find(&address.parse().unwrap(), asked).unwrap();
                let head = |name| response.headers()[name].to_str().unwrap().to_owned();
                let cache = head(header::CACHE_CONTROL);
                (response.status().as_u16(), cache, head(header::ETAG))
            };
            let quoted = format!("\"{tag}\"");
            let kept = "max-age=31536000, immutable".to_owned();
            let asks = || ("no-cache".to_owned(), quoted.clone());
            let known = HeaderMap::from_iter([(header::IF_NONE_MATCH, quoted.parse().unwrap())]);
            let page = &files
                .files
                .iter()
                .find(|file| file.name == PAGE)
                .unwrap()
                .text;
            assert!(page.contains(&format!("\"/{name}?v={tag}\"")), "{page}");
            assert_eq!(
                of(format!("/{name}?v={tag}"), &asked),
                (200, kept, quoted.clone())
            );
            assert_eq!(
                of(format!("/{name}?v=0"), &asked),
                (200, asks().0, asks().1)
            );
            assert_eq!(of(format!("/{name}"), &known), (304, asks().0, asks().1));
        }
    }

    /// Without its hash in the policy, a browser would refuse the style or the script.
    #[test]
    fn the_page_contains_its_style_and_first_script_and_the_policy_allows_only_these() {
        let files = files();
        let page = &files.files.iter().find(|file| file.name == PAGE).unwrap();
        for (name, line, tag) in CONTAINED {
            let (source, (open, close)) = (
                built_in(name).unwrap(),
                (format!("<{tag}>"), format!("</{tag}>")),
            );
            assert!(!page.text.contains(line), "{line}");
            assert_eq!(page.text.matches(&open).count(), 1, "{open}");
            let (_, text) = page.text.split_once(&open).unwrap();
            let (text, _) = text.split_once(&close).unwrap();
            assert_eq!(text, source, "{name}");
            let hash = BASE64.encode(Sha256::digest(text));
            let allowed = format!("'sha256-{hash}'");
            assert!(files.policy.contains(&allowed), "{}", files.policy);
        }
        assert_eq!(files.policy.matches("sha256-").count(), 2);
        assert!(!files.policy.contains("unsafe"), "{}", files.policy);
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
    /// A browser loads all files at the first look. `make bench-console` prints what each source costs.
    #[test]
    fn the_pages_stay_small() {
        let files = files();
        let of_page = files
            .files
            .iter()
            .filter(|file| !file.name.starts_with("m/"));
        let whole: String = of_page.map(|file| file.text.as_str()).collect();
        let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut zipped, whole.as_bytes()).unwrap();
        let zipped = zipped.finish().unwrap().len();
        assert!(whole.len() <= 153_500, "{} bytes", whole.len());
        assert!(zipped <= 50_100, "{zipped} bytes compressed");
        let sources: usize = ASSETS.iter().map(|asset| asset.1.len()).sum();
        assert!(sources <= 171_500, "{sources} bytes of sources");
    }
}
