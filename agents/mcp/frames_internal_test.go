package mcp

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// TestFrames reads what a program writes: the response that cannot be read becomes the failure of its call, a request one that nobody knows, and all others stay as they are.
func TestFrames(t *testing.T) {
	long, deep, heavy := strings.Repeat(`\"id\":3}`, maxFrame/8), strings.Repeat("[", 11_000)+strings.Repeat("]", 11_000), strings.Repeat("{},", maxHeavy/80)+"{}"
	const asks = `{"jsonrpc":"2.0","id":1,"method":"a request that is too large to be read"}` + "\n"
	const tells = `{"jsonrpc":"2.0","method":"a notification that is too large to be read"}` + "\n"
	less := strings.Repeat("{},", maxAsked/80) + "{}"
	failed := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32603,"message":"the server's answer is too large to be read: what was asked of it may be done all the same"}}` + "\n"
	}
	for name, of := range map[string]struct {
		line, want string
		err        error
	}{
		"short":          {`{"jsonrpc":"2.0","id":1,"result":{}}` + "\n", "", nil},
		"end":            {`{"jsonrpc":"2.0","id":1,"res`, "", nil},
		"empty":          {"\n\n", "", nil},
		"not so long":    {`{"jsonrpc":"2.0","id":1,"result":{"text":"` + long[:maxFrame-100] + `"}}` + "\n", "", nil},
		"long":           {`{"jsonrpc":"2.0","id":1,"result":{"text":"` + long + `"}}` + "\n", failed("1"), nil},
		"of another SDK": {`{"result":{"text":"` + long + `"},"jsonrpc":"2.0","id":"a-1"}` + "\r\n", failed(`"a-1"`), nil},
		"deep":           {`{"jsonrpc": "2.0", "id": 1, "result": {"a":` + deep + `}}` + "\n", failed("1"), nil},
		"event":          {`data: {"jsonrpc":"2.0","id":1,"result":{"text":"` + long + `"}}` + "\n", "data: " + failed("1"), nil},
		"heavy":          {`{"id":1,"jsonrpc":"2.0","error":{"data":[` + heavy + `]}}` + "\n", failed("1"), nil},
		"anywhere":       {`{"meta":[{"id":7}],"result":{"a":[` + heavy + `]},"x":{"id":8},"id":9,"jsonrpc":"2.0","y":"\"id\":6,{"}` + "\n", failed("9"), nil},
		"heavier":        {`{"jsonrpc":"2.0","id":1,"result":{"a":[` + less + `]}}` + "\n", "", nil},
		"heavy request":  {`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":[` + less + `]}` + "\n", asks, nil},
		"long request":   {`{"method":"ping","params":{"a":"` + long + `","id":2},"jsonrpc":"2.0","id":1}` + "\n", asks, nil},
		"asking event":   {`data:{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + long + `"}}` + "\n", "data: " + asks, nil},
		"notification":   {`{"jsonrpc":"2.0","method":"notifications/message","params":{"a":` + deep + `}}` + "\n", tells, nil},
		"several":        {`[{"jsonrpc":"2.0","id":1,"result":[` + heavy + `]}]` + "\n", "", nil},
		"cut off":        {`{"jsonrpc":"2.0","id":1,"result":{"text":"` + long, "", errEndless},
		"long outside":   {`{"jsonrpc":"2.0","id":1,"result":"` + long + `"}` + "\n", "", errEndless},
		"without id":     {`{"result":{"text":"` + long + `","id":1}}` + "\n", "", errEndless},
		"without end":    {`{"jsonrpc":"2.0","id":1,"result":{"a":"` + strings.Repeat(long, 1+maxDrop/len(long)), "", errEndless},
	} {
		t.Run(name, func(t *testing.T) {
			const behind = `{"jsonrpc":"2.0","id":2,"result":{}}` + "\n"
			want := of.want
			if want == "" && of.err == nil {
				want = of.line
			}
			got, err := io.ReadAll(newFrames(io.NopCloser(io.MultiReader(strings.NewReader(behind), strings.NewReader(of.line), strings.NewReader(behind)))))
			if want += behind; of.err == nil && (string(got) != behind+want || err != nil) {
				t.Errorf("read %d bytes, %.300q, %v; want %d, %.300q", len(got), got, err, len(want), want)
			}
			if of.err != nil && (string(got) != behind || !errors.Is(err, of.err)) {
				t.Errorf("read %.300q, %v; want %v", got, err, of.err)
			}
		})
	}
}
