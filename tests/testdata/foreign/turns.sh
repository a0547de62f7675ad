#!/bin/sh
# Takes whole turns with a delegation through a model server that is not ours, with the protocols of OpenAI (chat completions and the Responses API, the
# latter with tokens of a program), Anthropic and Gemini, each by `cortex ask` as a user would run it. Needs Go, Node, npm and, the first time, the network; it says so where they are missing, and fails in CI ($CI is set).
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if ! command -v npm >/dev/null 2>&1 || ! command -v node >/dev/null 2>&1; then
	echo 'NOT RUN: tests/testdata/foreign/turns.sh: there is no npm on this machine, so that no foreign model server is tried' >&2
	test -z "${CI:-}" && exit 0
	exit 1
fi
work=$(mktemp -d)
mock=
trap 'test -z "$mock" || kill "$mock"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

(cd "$here/../../.." && go build -o "$work/cortex" .)
"$here/aimock.sh" "${1:-$work/aimock}" >"$work/log" 2>&1 &
mock=$!
tries=0
until url=$(grep -o 'http://127\.0\.0\.1:[0-9]*' "$work/log"); do
	tries=$((tries + 1))
	if [ "$tries" -gt 600 ] || ! kill -0 "$mock" 2>/dev/null; then
		cat "$work/log" >&2
		exit 1
	fi
	sleep 0.2
done
export OPENAI_API_KEY=x GEMINI_API_KEY=x ANTHROPIC_API_KEY=x OPENAI_BASE_URL="$url/v1" GOOGLE_GEMINI_BASE_URL="$url" ANTHROPIC_BASE_URL="$url" CORTEX_DATA="$work/data"
cat >"$work/cortex.yaml" <<-'SETTINGS'
	llms:
	  pro: {provider: openai, model: gpt-5-pro, api: responses, api_key_command: [echo, a-token]}
	  sol: {provider: openai, model: gpt-6-sol, structured: tools} # functions of this model have no other API
SETTINGS
export CORTEX_CONFIG="$work/cortex.yaml"
failed=0
for llm in openai pro sol anthropic gemini; do
	while IFS='|' read -r question answer; do
		got=$(CORTEX_AGENTS=calc,clock "$work/cortex" ask --llm "$llm" --conversation "$llm" "$question" 2>&1 </dev/null) || true
		if [ "$got" = "$answer" ]; then
			echo "ok      $llm: $question -> $got"
		else
			echo "FAILED  $llm: $question -> $got; want $answer"
			failed=1
		fi
	done <<-'QUESTIONS'
		What is six times seven?|Six times seven is 42.
		What time is it in Tokyo?|The clock knows the time in Tokyo.
	QUESTIONS
done
asked=$(node -e 'fetch(process.argv[1]).then((r) => r.json()).then((all) => console.log(all.filter((e) => e.path === "/v1/responses").length))' "$url/__aimock/journal")
if [ "$asked" -ne 8 ]; then
	echo "FAILED  the Responses API was asked $asked times; want 8"
	failed=1
fi
exit "$failed"
