package mcp

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// TestFrames reads what a program writes: the response that cannot be read becomes the failure of its call, a request one that nobody knows, and all others stay as they are.
func TestFrames(t *testing.T) {
	long, deep, heavy := strings.Repeat(`\"id\":3}`, maxFrame/8), strings.Repeat("[", 11_000)+strings.Repeat("]", 11_000), strings.Repeat("{},", maxHeavy/80)+"{}"
	const asks = `{"jsonrpc":"2.0","id":1,"method":"a request that is too large to be read"}` + "\n"
	less := strings.Repeat("{},", maxAsked/80) + "{}"
	failed := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32603,"message":"the server's answer is too large to be read: what was asked of it may be done all the same"}}` + "\n"
	}
	why := func(of, why string) string { return strings.Replace(of, tooLarge, why, 1) }
	short := strings.Repeat("[", 1000) + strings.Repeat("]", 1000) // in 2 kB; with one more, the SDK does not read it
	const skipped = "skipped"
	for name, of := range map[string]struct {
		line, want string
		err        error
	}{
		"short":             {`{"jsonrpc":"2.0","id":1,"result":{}}` + "\n", "", nil},
		"empty":             {"\n\n", "", nil},
		"not so long":       {`{"jsonrpc":"2.0","id":1,"result":{"text":"` + long[:maxFrame-2*maxBeside-100] + `"}}` + "\n", "", nil},
		"long":              {`{"jsonrpc":"2.0","id":1,"result":{"text":"` + long + `"}}` + "\n", failed("1"), nil},
		"of another SDK":    {`{"result":{"text":"` + long + `"},"jsonrpc":"2.0","id":"a-1"}` + "\r\n", failed(`"a-1"`), nil},
		"deep":              {`{"jsonrpc": "2.0", "id": 1, "result": {"a":` + deep + `}}` + "\n", why(failed("1"), tooDeep), nil},
		"as deep as can be": {`{"jsonrpc":"2.0","id":1,"result":` + short[1:1999] + `}` + "\n", "", nil},
		"a little deeper":   {`{"jsonrpc":"2.0","result":` + short + `,"id":1}` + "\n", why(failed("1"), tooDeep), nil},
		"asks too deep":     {`{"jsonrpc":"2.0","id":1,"method":"ping","params":` + short + `}` + "\n", why(asks, tooDeep), nil},
		"heavy":             {`{"id":1,"jsonrpc":"2.0","error":{"data":[` + heavy + `]}}` + "\n", failed("1"), nil},
		"anywhere":          {`{"meta":[{"id":7}],"result":{"a":[` + heavy + `]},"x":{"id":8},"id":9,"jsonrpc":"2.0","y":"\"id\":6,{"}` + "\n", failed("9"), nil},
		"heavier":           {`{"jsonrpc":"2.0","id":1,"result":{"a":[` + less + `]}}` + "\n", "", nil},
		"heavy request":     {`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":[` + less + `]}` + "\n", asks, nil},
		"long request":      {`{"method":"ping","params":{"a":"` + long + `","id":2},"jsonrpc":"2.0","id":1}` + "\n", asks, nil},
		"notification":      {`{"jsonrpc":"2.0","method":"notifications/message","params":{"a":` + deep + `}}` + "\n", skipped, nil},
		"no number":         {`{"jsonrpc": "2.0", "id": 1, "result": {"mean": NaN, "id": 2}}` + "\n", why(failed("1"), notJSON), nil},
		"nothing but that":  {`{"result":-Infinity,"jsonrpc":"2.0","id":"a\"},\"id\":2,"}` + "\n", why(failed(`"a\"},\"id\":2,"`), notJSON), nil},
		"half of it":        {`{"jsonrpc":"2.0","id":1,"result":{"text":"ab` + "\n", why(failed("1"), notJSON), nil},
		"less of it":        {`{"jsonrpc":"2.0","id":1,` + "\n", skipped, nil},
		"two in one":        {`{"jsonrpc":"2.0","id":1,"result":{}} {"jsonrpc":"2.0","id":3,"result":{}}` + "\n", skipped, nil},
		"no id":             {`{"jsonrpc":"2.0","id":NaN,"result":{}}` + "\n", skipped, nil},
		"words":             {"The server listens {\"id\": 1}\n", skipped, nil},
		"words about one":   {`sends {"jsonrpc":"2.0","id":1,"result":{}}` + "\n", skipped, nil},
		"a space behind":    {`{"jsonrpc":"2.0","id":1,"result":{}} ` + "\t\n", `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n", nil},
		"a strange space":   {"\f\u00a0\n", skipped, nil},
		"no version":        {`{"id":1,"result":{}}` + "\n", why(failed("1"), noMessage), nil},
		"an object as id":   {`{"jsonrpc":"2.0","id":{},"result":{"text":"` + long + `"}}` + "\n", skipped, nil},
		"null":              {"null\n", skipped, nil},
		"without id":        {`{"result":{"text":"` + long + `","id":1}}` + "\n", skipped, nil},
		"cut off":           {`{"jsonrpc":"2.0","id":1,"result":{"text":"` + long, failed("1"), nil},
		"long outside":      {`{"jsonrpc":"2.0","id":1,"result":"` + long + `"}` + "\n", "", errEndless},
		"without end":       {`{"jsonrpc":"2.0","id":1,"result":{"a":"` + strings.Repeat(long, 1+maxDrop/len(long)), "", errEndless},
	} {
		t.Run(name, func(t *testing.T) {
			const behind = `{"jsonrpc":"2.0","id":2,"result":{}}`
			want, skips := of.want, 0
			switch want {
			case "":
				want = of.line
			case skipped:
				want, skips = "", 1
			}
			check := func(in framing, want string, said ...string) {
				t.Helper()
				var parts []io.Reader
				for _, text := range said {
					parts = append(parts, strings.NewReader(text))
				}
				n := 0
				got, err := io.ReadAll(newFrames(io.NopCloser(io.MultiReader(parts...)), in, func(string, int) { n++ }))
				if string(got) != want || !errors.Is(err, of.err) || n != skips {
					t.Errorf("read %d bytes, %.300q, %v, and skipped %d; want %d, %.300q, %v, %d", len(got), got, err, n, len(want), want, of.err, skips)
				}
			}
			switch {
			case of.err != nil:
				check(inLines, behind+"\n", behind+"\n", of.line, behind+"\n")
			case !strings.HasSuffix(of.line, "\n"):
				check(inLines, behind+"\n"+want, behind+"\n", of.line)
			default:
				check(inLines, behind+"\n"+want+behind+"\n", behind+"\n", of.line, behind+"\n")
			}
			if of.err != nil || name == "two in one" { // of which the SDK reads the first
				return
			}
			if want = strings.TrimSpace(want); want != "" {
				want = "data:" + want + "\n"
			}
			check(inEvents, "id: 1\n"+want+"\ndata:"+behind+"\n\n", ": x\nid: 1\ndata: ", strings.TrimRight(of.line, "\r\n"), "\r\n\r\ndata:"+behind+"\n\n")
		})
	}
}

// TestFramesOfOneMessage reads events and bodies that are no lines.
func TestFramesOfOneMessage(t *testing.T) {
	const inOldEvents = framing(-1)
	const failure = `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"the server's answer is not JSON: what was asked of it may be done all the same"}}`
	for name, of := range map[string]struct {
		form       framing
		said, want string
	}{
		"several lines":                          {inEvents, "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":7,\"result\":{}}\n\n", "data:{\"jsonrpc\":\"2.0\",\ndata: \"id\":7,\"result\":{}}\n\n"},
		"no field":                               {inEvents, "data\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":NaN}", "event: message\ndata:" + failure + "\n"},
		"of another kind":                        {inEvents, "event: endpoint\ndata: /messages?id=7\n\n", "event: endpoint\ndata:/messages?id=7\n\n"},
		"nothing in it":                          {inEvents, "id: 3\ndata:\n\n", "id: 3\n\n"},
		"a body":                                 {inBody, "{\n \"jsonrpc\": \"2.0\",\n \"id\": 7, \"result\": {}\n}\n", "{\n \"jsonrpc\": \"2.0\",\n \"id\": 7, \"result\": {}\n}\n"},
		"a body without JSON":                    {inBody, "<html>\n\n", failure},
		"an empty body":                          {inBody, "", failure},
		"some in a line":                         {inLines, `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"a"},1]` + "\n[]\n", `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","method":"a"}` + "\n" + `{"jsonrpc":"2.0","method":"a"}` + "\n"},
		"half of its id":                         {inLines, `{"jsonrpc":"2.0","result":{},"id":1`, ""},
		"too many in a line":                     {inLines, "[" + strings.Repeat(`{"jsonrpc":"2.0","method":"a"},`, messagesAtOnce) + `{"jsonrpc":"2.0","method":"a"}]` + "\n", ""},
		"what an old client takes for a message": {inOldEvents, "event: message\ndata: x\n\nid: 1\n\nevent: ping\ndata: {}\n\nevent: endpoint\ndata: /m\n\n", "\n\n\nevent: endpoint\ndata:/m\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFrames(io.NopCloser(strings.NewReader(of.said)), of.form, func(string, int) {})
			if of.form == inOldEvents {
				f.form, f.old = inEvents, true
			}
			if of.form == inBody {
				f.call = func() (jsonrpc.ID, bool) { id, err := jsonrpc.MakeID(7.0); return id, err == nil }
			}
			if got, err := io.ReadAll(f); string(got) != of.want || err != nil {
				t.Errorf("read %q, %v; want %q", got, err, of.want)
			}
		})
	}
}

// TestBodyIsCutOff reads a body that ends with an error, as when its call is canceled: only that call fails.
func TestBodyIsCutOff(t *testing.T) {
	f := newFrames(io.NopCloser(io.MultiReader(strings.NewReader(`{"jsonrpc":`), iotest.ErrReader(io.ErrUnexpectedEOF))), inBody, func(string, int) {})
	f.call = func() (jsonrpc.ID, bool) { id, err := jsonrpc.MakeID(7.0); return id, err == nil }
	if got, err := io.ReadAll(f); err != nil || !strings.Contains(string(got), `"id":7,"error":{"code":-32603,"message":"the server's answer is cut off`) {
		t.Errorf("read %q, %v", got, err)
	}
}
