#!/bin/sh
# Has the reference servers of MCP, which are not ours, do work for `cortex ask` as a user would run it: files, a memory, a form, progress. Needs Go,
# Node, npm and the network, and a folder for the packages if one is given; it says so where they are missing, and fails in CI ($CI is set).
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
missing() {
	echo "NOT RUN: tests/testdata/foreign/mcp.sh: $1" >&2
	test -z "${CI:-}" && exit 0
	exit 1
}
command -v npm >/dev/null 2>&1 && command -v node >/dev/null 2>&1 || missing 'there is no npm on this machine, so that no foreign MCP server is tried'
work=$(mktemp -d)
serve=
agent=
trap 'test -z "$agent" || kill "$agent" 2>/dev/null; test -z "$serve" || kill "$serve" 2>/dev/null; wait; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

packages=${1:-$work/packages}
mkdir -p "$packages"
v=2026.8.31
npm install --prefix "$packages" --ignore-scripts --no-audit --no-fund --no-save \
	"@modelcontextprotocol/server-everything@$v" "@modelcontextprotocol/server-filesystem@$v" \
	"@modelcontextprotocol/server-memory@$v" "@modelcontextprotocol/server-sequential-thinking@$v" >"$work/npm" 2>&1 || {
	cat "$work/npm" >&2
	missing 'npm cannot install the servers'
}
(cd "$here/../../.." && go build -o "$work/cortex" .)
cortex=$work/cortex
export CORTEX_DATA="$work/data" XDG_CONFIG_HOME="$work/none" SERVERS="$packages/node_modules/.bin" FILES="$work/files"
mkdir "$FILES"
echo 'buy milk' >"$FILES/list.txt"
cat >"$work/.mcp.json" <<'SERVERS'
{"mcpServers": {
	"fs": {"command": "${SERVERS}/mcp-server-filesystem", "args": ["${FILES}"]},
	"memory": {"command": "${SERVERS}/mcp-server-memory", "env": {"MEMORY_FILE_PATH": "${FILES}/memory.json"}},
	"everything": {"type": "stdio", "command": "${SERVERS}/mcp-server-everything"},
	"think": {"command": "${SERVERS}/mcp-server-sequential-thinking"}
}}
SERVERS
"$cortex" serve --agents none --http none >"$work/serve.log" 2>&1 &
serve=$!
"$cortex" agent mcp fs memory everything think --config "$work/.mcp.json" >"$work/agent.log" 2>&1 &
agent=$!
tries=0
until [ "$("$cortex" agents 2>/dev/null | grep -c '^mcp_')" = 4 ]; do
	tries=$((tries + 1))
	if [ "$tries" -gt 300 ] || ! kill -0 "$agent" 2>/dev/null; then
		cat "$work/agent.log" "$work/serve.log" >&2
		exit 1
	fi
	sleep 0.2
done

failed=0
# try WANT ARGS... asks, and wants the answer to have WANT.
try() {
	want=$1
	shift
	got=$("$cortex" ask "$@" </dev/null 2>&1) || true
	case $got in
	*"$want"*) echo "ok      $*" ;;
	*)
		echo "FAILED  $*: $got; want $want"
		failed=1
		;;
	esac
}
try 'buy milk' --agent mcp_fs --skill read_text_file --input "{\"path\":\"$FILES/list.txt\"}" 'read the list'
try 'Do it? Answer yes or no.' --context write --agent mcp_fs --skill write_file --input "{\"path\":\"$FILES/new.txt\",\"content\":\"hello\"}" 'write it'
try 'Successfully wrote' --context write yes
try 'Access denied' --agent mcp_fs --skill read_text_file --input '{"path":"/etc/passwd"}' 'read another file'
try 'path is missing' --agent mcp_fs --skill read_text_file --input '{}' 'read nothing'
try 'likes tea' --agent mcp_memory --skill create_entities --input '{"entities":[{"name":"Ann","entityType":"person","observations":["likes tea"]}]}' 'remember Ann'
try 'likes tea' --agent mcp_memory --skill read_graph 'what is known?'
try 'thoughtHistoryLength' --agent mcp_think --input '{"thought":"first","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}' 'think'
try 'Echo: hello' --agent mcp_everything --skill echo 'hello'
try 'is 42' --agent mcp_everything --skill get-sum --input '{"a":2,"b":40}' 'add'
try '"conditions":' --agent mcp_everything --skill get-structured-content --input '{"location":"New York"}' 'the weather'
try 'wrote' --output "$work/out" --agent mcp_everything --skill get-tiny-image 'a picture'
try '1 of 2' --json --agent mcp_everything --skill trigger-long-running-operation --input '{"duration":1,"steps":2}' 'take your time'
try 'Your full, legal name' --context form --agent mcp_everything --skill trigger-elicitation-request 'a form'
try 'Name: Ann' --context form 'name: Ann
check: yes'
try 'likes tea' 'read_graph of mcp_memory'
got=$("$cortex" ask --agent mcp_fs --skill read_text_file --input "{\"path\":\"$FILES/list.txt\"}" 'read the list' </dev/null 2>&1) || true
test "$got" = 'buy milk' || { # the server wraps it in an object
	echo "FAILED  the text of a file is shown as $got"
	failed=1
}
test "$(cat "$FILES/new.txt")" = hello || {
	echo "FAILED  the file that was written has $(cat "$FILES/new.txt")"
	failed=1
}
exit "$failed"
