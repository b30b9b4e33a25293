#!/bin/sh
# Installs webhookctl into ~/.local/bin, without sudo:
#   sh install.sh OWNER/REPOSITORY VERSION [FOLDER]
# The copy in a release contains the first two values and needs no arguments.
set -eu
repository=${1:-}
version=${2:-}
folder=${3:-$HOME/.local/bin}

fail() {
  echo "install.sh: $*" >&2
  exit 1
}
if [ -z "$repository" ] || [ -z "$version" ]; then fail "usage: sh install.sh OWNER/REPOSITORY VERSION [FOLDER]"; fi
from=${MITT_DOWNLOADS:-https://github.com/$repository/releases/download/v$version}

case $(uname -sm) in
  'Linux x86_64') target=x86_64-unknown-linux-musl ;;
  'Linux aarch64' | 'Linux arm64') target=aarch64-unknown-linux-musl ;;
  'Darwin x86_64') target=x86_64-apple-darwin ;;
  'Darwin arm64') target=aarch64-apple-darwin ;;
  *) fail "there is no program for $(uname -sm); build from source" ;;
esac
name=webhookctl-$version-$target

download() {
  if command -v curl >/dev/null; then curl -fsSL "$from/$1" -o "$1"; else wget -q "$from/$1" -O "$1"; fi ||
    fail "cannot download $from/$1"
}
check() {
  if command -v sha256sum >/dev/null; then sha256sum --check -; else shasum -a 256 --check -; fi >/dev/null 2>&1
}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
draft=$(mktemp -d)
trap 'rm -rf "$draft"' EXIT
cd "$draft"
download SHA256SUMS
download "$name.tar.gz"
grep -F "  $name.tar.gz" SHA256SUMS >sum || fail "SHA256SUMS does not list $name.tar.gz"
check <sum || fail "the checksum of $name.tar.gz is wrong; nothing was installed"
tar -xzf "$name.tar.gz"
# A rename replaces a program that is running.
cp "$name/webhookctl" "$folder/.webhookctl.$$"
mv "$folder/.webhookctl.$$" "$folder/webhookctl"
echo "installed $("$folder/webhookctl" -V) in $folder"
case ":$PATH:" in *":$folder:"*) ;; *) echo "$folder is not in PATH; add it" ;; esac
