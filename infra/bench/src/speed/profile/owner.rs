//! Finds the owner of a function by its name.

/// The owners of code, with the prefixes of their crates or of their C functions.
const OWNERS: [(&str, &str); 12] = [
    ("Mitt", "catcher shared"),
    ("Lambda's runtime", "aws_lambda_events lambda_ async_stream"),
    ("AWS SDK", "aws_"),
    (
        "HTTP",
        "h2 http hyper tower url idna form_urlencoded percent_encoding want",
    ),
    ("tokio", "futures mio socket2 tokio"),
    (
        "TLS and cryptography",
        "block_buffer crypto digest ecdsa elliptic_curve hmac p256 primeorder ring rustls sha1 sha2 \
         subtle webpki x25519 LIMBS GFp aes_",
    ),
    (
        "JSON, TOML and encodings",
        "base64 hex itoa memchr ryu serde toml winnow zmij jiff time",
    ),
    (
        "logs",
        "matchers regex_automata regex_syntax sharded_slab tracing",
    ),
    ("zstd", "FSE_ HIST_ HUF_ ZSTD zstd"),
    ("regular expressions", "regex"),
    (
        STANDARD,
        "addr2line alloc core gimli hashbrown miniz_oxide rustc_demangle std",
    ),
    (C, "_mi_ mi_ mimalloc"),
];

pub(super) const STANDARD: &str = "Rust's standard library";
const LOADER: &str = "loading the executable";
pub(super) const C: &str = "allocation, copies and the rest of libc";
pub(super) const OTHER: &str = "other";

/// Returns the owner of a function in a loaded file.
pub(super) fn owner_of(object: &str, function: &str) -> &'static str {
    let object = object.rsplit('/').next().unwrap_or(object);
    if object.starts_with("ld-") || object.starts_with("ld64") {
        return LOADER;
    }
    let libraries = ["libc.", "libm.", "libgcc"];
    if libraries.iter().any(|it| object.starts_with(it)) {
        return C;
    }
    owner(function)
}

/// Returns the owner of the first crate in a name, apart from the standard library. A
/// `drop_in_place` of a type, or a method of a `Vec` of the type, belongs to the crate of the type.
pub(super) fn owner(function: &str) -> &'static str {
    let owned = |word: &str| {
        let mut owners = OWNERS.iter();
        let found = owners.find(|(_, crates)| crates.split(' ').any(|it| word.starts_with(it)));
        found.map(|(owner, _)| *owner)
    };
    let mut crates = function.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    let mut named = crates.by_ref().filter_map(|path| path.split_once("::"));
    let mut fallback = None;
    for (first, _) in named.by_ref() {
        match owned(first) {
            Some(STANDARD) => fallback = Some(STANDARD),
            Some(owner) => return owner,
            None => {}
        }
    }
    fallback.or_else(|| owned(function)).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_the_first_crate_that_is_not_the_standard_library() {
        assert_eq!(
            owner("core::ptr::drop_in_place<shared::sources::Config>"),
            "Mitt"
        );
        assert_eq!(owner("<hyper::Error as core::fmt::Display>::fmt"), "HTTP");
        assert_eq!(owner("ZSTD_compressBlock"), "zstd");
        assert_eq!(owner("_mi_page_malloc"), C);
        assert_eq!(owner("_start"), OTHER);
    }
}
