#!/bin/sh
# Installs aimock into FOLDER, unless it is there, and serves fixtures.json on 127.0.0.1 until it is killed. The line that
# ends with its URL is printed when it is ready. PORT is any free one by default.
set -eu

if [ $# -lt 1 ]; then
	echo "usage: aimock.sh FOLDER [PORT]" >&2
	exit 2
fi
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
folder=$1
port=${2:-0}
cli=$folder/node_modules/@copilotkit/aimock/dist/cli.js

for program in node npm; do
	if ! command -v "$program" >/dev/null; then
		echo "aimock.sh: $program is not installed" >&2
		exit 1
	fi
done
if ! [ -f "$cli" ] || ! cmp -s "$here/package-lock.json" "$folder/package-lock.json"; then
	mkdir -p "$folder"
	cp "$here/package.json" "$here/package-lock.json" "$folder"
	(cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund >&2)
fi

# The same process, so that who kills the script kills the server.
exec node "$cli" -h 127.0.0.1 -p "$port" -f "$here/fixtures.json" --strict --validate-on-load
