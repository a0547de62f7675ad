#!/bin/sh
# Has the TypeScript client of MCP, which is not ours, take whole turns with `cortex mcp` and with /mcp of `cortex serve`, in both eras of the protocol:
# a yes of the user, and work that takes longer than the host waits ($WORK seconds of work, a call is cut after $CUT). Needs Go, Node, npm and the
# network, and a folder for the packages if one is given; it says so where they are missing, and fails in CI ($CI is set).
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
missing() {
	echo "NOT RUN: tests/testdata/foreign/host.sh: $1" >&2
	test -z "${CI:-}" && exit 0
	exit 1
}
command -v npm >/dev/null 2>&1 && command -v node >/dev/null 2>&1 || missing 'there is no npm on this machine, so that no foreign MCP host is tried'
work=$(mktemp -d)
serve=
agent=
trap 'test -z "$agent" || kill "$agent" 2>/dev/null; test -z "$serve" || kill "$serve" 2>/dev/null; wait; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

PACKAGES=${1:-$work/packages}
export PACKAGES
mkdir -p "$PACKAGES"
npm install --prefix "$PACKAGES" --ignore-scripts --no-audit --no-fund --no-save @modelcontextprotocol/client@2.4.0 >"$work/npm" 2>&1 || {
	cat "$work/npm" >&2
	missing 'npm cannot install the client'
}
(cd "$here/../../.." && go build -o "$work/cortex" .)
cortex=$work/cortex
port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })')
WORK=${WORK:-8}
export WORK CORTEX_DATA="$work/data" XDG_CONFIG_HOME="$work/none" CORTEX_POLICY="$work/policy.yaml"
echo 'rules: [{agents: [agent_echo], confirm: true}]' >"$work/policy.yaml"
echo '{"name": "slow", "description": "takes its time", "skills": [{"id": "dawdle", "name": "dawdle", "description": "takes its time"}]}' >"$work/card.json"
"$cortex" serve --http "127.0.0.1:$port" >"$work/serve.log" 2>&1 &
serve=$!
"$cortex" agent exec --card "$work/card.json" -- sh -c 'sleep "$WORK"; echo finished' >"$work/agent.log" 2>&1 &
agent=$!
tries=0
until "$cortex" agents 2>/dev/null | grep -q '^slow'; do
	tries=$((tries + 1))
	if [ "$tries" -gt 100 ] || ! kill -0 "$agent" 2>/dev/null; then
		cat "$work/agent.log" "$work/serve.log" >&2
		exit 1
	fi
	sleep 0.2
done
node "$here/host.mjs" "$cortex" "http://127.0.0.1:$port/mcp" "${CUT:-3}" "$WORK"
n=$("$cortex" conversations --json | grep -o '"contextId"' | wc -l)
test "$n" -eq 8 || {
	echo "FAILED  there are $n conversations, want 8: something was asked twice"
	exit 1
}
