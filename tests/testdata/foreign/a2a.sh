#!/bin/sh
# Has the JavaScript client of A2A, which is not ours, do all that it can with `cortex serve --a2a`: version 1.3.0 of the SDK with JSON-RPC, HTTP+JSON and
# gRPC, and its version 0.3.14, for A2A 0.3, with the first two. Needs Go, Node, npm and the network, and a folder for the packages if one is given; it
# says so where they are missing, and fails in CI ($CI is set).
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
missing() {
	echo "NOT RUN: tests/testdata/foreign/a2a.sh: $1" >&2
	test -z "${CI:-}" && exit 0
	exit 1
}
command -v npm >/dev/null 2>&1 && command -v node >/dev/null 2>&1 || missing 'there is no npm on this machine, so that no foreign A2A client is tried'
command -v curl >/dev/null 2>&1 || missing 'there is no curl on this machine, so that no foreign A2A client is tried'
test "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 || missing 'the SDK needs Node 20'
work=$(mktemp -d)
serve=
agent=
end() {
	for pid in $agent $serve; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	agent=
	serve=
}
trap 'end; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

PACKAGES=${1:-$work/packages}
export PACKAGES
mkdir -p "$PACKAGES"
cp "$here/package.json" "$here/package-lock.json" "$PACKAGES"
npm ci --prefix "$PACKAGES" --ignore-scripts --no-audit --no-fund >"$work/npm" 2>&1 || {
	cat "$work/npm" >&2
	missing 'npm cannot install the SDK'
}
(cd "$here/../../.." && go build -o "$work/cortex" .)
cortex=$work/cortex
free() { node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })'; }
export XDG_CONFIG_HOME="$work/none" CORTEX_POLICY="$work/policy.yaml" KIT="$here/../../../sdk/typescript/cortex-agent.mjs"
echo 'rules: [{agents: [agent_echo], confirm: true}]' >"$work/policy.yaml"
echo '{"name": "helper", "description": "Paints, waits and writes", "skills": [{"id": "help", "name": "help", "description": "Paints, waits and writes"}]}' >"$work/card.json"

# try MODE FLAG... has a service with these flags, and the clients of a mode.
try() {
	mode=$1
	shift
	CORTEX_DATA="$work/$mode"
	export CORTEX_DATA
	port=$(free)
	rpc=$(free)
	"$cortex" serve --http none --a2a "127.0.0.1:$port" --a2a-grpc "127.0.0.1:$rpc" --a2a-push-host 127.0.0.1 "$@" >"$work/serve.log" 2>&1 &
	serve=$!
	"$cortex" agent exec --card "$work/card.json" --protocol jsonl --keep -- node "$here/helper.mjs" >"$work/agent.log" 2>&1 &
	agent=$!
	tries=0
	until "$cortex" agents 2>/dev/null | grep -q '^helper'; do
		tries=$((tries + 1))
		if [ "$tries" -gt 100 ] || ! kill -0 "$agent" 2>/dev/null; then
			cat "$work/agent.log" "$work/serve.log" >&2
			exit 1
		fi
		sleep 0.2
	done
	timeout 120 node "$here/a2a.mjs" "$mode" "http://127.0.0.1:$port" || {
		cat "$work/agent.log" "$work/serve.log" >&2
		exit 1
	}
	# The lines in the README are run as they are there, but for the port.
	awk '/^```js$/ { on = 1; text = ""; next } /^```$/ { if (on && text ~ /@a2a-js/) printf "%s", text; on = 0 } on { text = text $0 "\n" }' "$here/../../../docs/a2a.md" |
		sed "s/127\.0\.0\.1:8421/127.0.0.1:$port/" >"$PACKAGES/readme.mjs"
	got=$(timeout 60 node "$PACKAGES/readme.mjs" 2>&1) || true
	test "$got" = '17*23 = 391' || {
		echo "FAILED  $mode: the lines in the README print $got"
		exit 1
	}
	awk '/^    curl .*127\.0\.0\.1:8421/ { on = 1 } on { print; on = /\\$/ }' "$here/../../../docs/a2a.md" | sed "s#https://hooks\.example\.com/#http://127.0.0.1:1/#; s/127\.0\.0\.1:8421/127.0.0.1:$port/; s/^ *curl/curl -sS --fail --max-time 60/" >"$work/curl"
	lines=$(sh -e "$work/curl" 2>&1) || got=
	case $got$lines in
	*391*'"protocolVersion"'*TASK_STATE_COMPLETED*'data: '*'"nextPageToken"'*) echo "ok      $mode: the lines in the README" ;;
	*)
		echo "FAILED  $mode: the lines in the README print $lines"
		exit 1
		;;
	esac
	end
}
try 1.0
try 0.3 --a2a-03
