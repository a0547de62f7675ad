package rtfs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The wire of the registry, byte for byte where the client library looks.
func TestWire(t *testing.T) {
	w := newWorld(t)
	w.serve()
	agent := newAgent(t, says(`{"success":true,"output":null,"error":null,"execution_time_ms":1,"metadata":{}}`))
	register := func(id, rest string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"rtfs.registry.register","params":{"agent_card":{"agent_id":"a","name":"A","description":"does a"},"endpoint_url":%q%s}}`, id, agent.URL, rest)
	}
	for _, c := range []struct{ name, path, body, want string }{
		{"text id", "/rtfs", register(`"r1"`, `,"ttl_seconds":null`), `{"jsonrpc":"2.0","id":"r1","result":{"status":"registered","agent_id":"a","expires_at":"*"}}`},
		{"number id", "/", register(`17.50`, ``), `{"jsonrpc":"2.0","id":17.50,"result":{"status":"registered",*`},
		{"null id", "/", register(`null`, `,"ttl_seconds":7,"unknown":{}`), `{"jsonrpc":"2.0","id":null,"result":{"status":"registered",*`},
		{"health", "/rtfs", `{"jsonrpc":"2.0","id":"h","method":"rtfs.registry.health","params":{}}`, `{"jsonrpc":"2.0","id":"h","result":{"agents":1,"status":"ok"}}`},
		{"health check, no params", "/rtfs", `{"jsonrpc":"2.0","id":"h","method":"rtfs.registry.health_check","more":1}`, `*"result":{"agents":1,*`},
		{"heartbeat", "/", `{"jsonrpc":"2.0","id":1,"method":"rtfs.registry.heartbeat","params":{"agent_id":"a"}}`, `{"jsonrpc":"2.0","id":1,"result":{"status":"registered","agent_id":"a","expires_at":"*"}}`},
		{"heartbeat of nobody", "/", `{"jsonrpc":"2.0","id":1,"method":"rtfs.registry.heartbeat","params":{"agent_id":"b"}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"agent b is not registered"}}`},
		{"unregister", "/", `{"jsonrpc":"2.0","id":"u","method":"rtfs.registry.unregister","params":{"agent_id":"a"}}`, `{"jsonrpc":"2.0","id":"u","result":{"agent_id":"a","status":"deregistered"}}`},
		{"deregister", "/", `{"jsonrpc":"2.0","id":"u","method":"rtfs.registry.deregister","params":{"agent_id":"a"}}`, `*"code":-32002,*`},
		{"discover nobody", "/", `{"jsonrpc":"2.0","id":"d","method":"rtfs.registry.discover","params":{}}`, `{"jsonrpc":"2.0","id":"d","result":{"agents":[],"total_count":0,"query_time_ms":*}}`},

		{"no JSON", "/", `{"jsonrpc":`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,*`},
		{"empty", "/", ``, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,*`},
		{"no UTF-8", "/", "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\"}", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,*`},
		{"batch", "/", `[]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,*`},
		{"another version", "/", `{"jsonrpc":"1.0","id":"a","method":"m"}`, `*"code":-32600,*`},
		{"no method", "/", `{"jsonrpc":"2.0","id":"a"}`, `*"code":-32600,*`},
		{"an object as id", "/", `{"jsonrpc":"2.0","id":{},"method":"m"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,*`},
		{"too deep", "/", `{"jsonrpc":"2.0","id":1,"method":"m","params":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, `*"code":-32600,*`},
		{"unknown method", "/", `{"jsonrpc":"2.0","id":"a","method":"rtfs.registry.list"}`, `{"jsonrpc":"2.0","id":"a","error":{"code":-32601,*`},
		{"another protocol's", "/", `{"jsonrpc":"2.0","id":"a","method":"register"}`, `*"code":-32601,*`},
		{"params as a list", "/", `{"jsonrpc":"2.0","id":"a","method":"rtfs.registry.discover","params":[]}`, `*"code":-32602,*`},
		{"no card", "/", `{"jsonrpc":"2.0","id":"a","method":"rtfs.registry.register","params":{"endpoint_url":"http://127.0.0.1:1"}}`, `*"code":-32602,"message":"params: agent_card, *`},
		{"no endpoint", "/", `{"jsonrpc":"2.0","id":"a","method":"rtfs.registry.register","params":{"agent_card":{}}}`, `*"code":-32602,*endpoint_url*`},
		{"a TTL of 0", "/", register(`"a"`, `,"ttl_seconds":0`), `*"code":-32602,*ttl_seconds*`},
		{"a TTL as text", "/", register(`"a"`, `,"ttl_seconds":"60"`), `*"code":-32602,*ttl_seconds must not be a string*`},
		{"a limit below 0", "/", `{"jsonrpc":"2.0","id":"a","method":"rtfs.registry.discover","params":{"limit":-1}}`, `*"code":-32602,*`},
		{"an unreadable constraint", "/", `{"jsonrpc":"2.0","id":"a","method":"rtfs.registry.discover","params":{"version_constraint":">=>1"}}`, `*"code":-32602,*`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "discover nobody" { // Cortex's directory hears a moment later that the agent has left
				w.Until("the agent has left", func() bool { return !w.Has("a") })
			}
			status, got := w.post(c.path, c.body)
			if status != http.StatusOK || !like(got, c.want) {
				t.Errorf("%s = %d\n%s, want 200\n%s", c.body, status, got, c.want)
			}
		})
	}
	t.Run("a notification", func(t *testing.T) {
		if status, got := w.post("/", `{"jsonrpc":"2.0","method":"rtfs.registry.health"}`); status != http.StatusNoContent || got != "" {
			t.Errorf("%d %s", status, got)
		}
	})
	t.Run("too large", func(t *testing.T) {
		if status, _ := w.post("/", strings.Repeat(" ", maxBody+1)); status != http.StatusRequestEntityTooLarge {
			t.Errorf("%d", status)
		}
	})
	t.Run("another method of HTTP", func(t *testing.T) {
		a, err := http.Get("http://" + w.address + "/rtfs")
		must(t, err)
		a.Body.Close()
		if a.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%d", a.StatusCode)
		}
	})
	t.Run("a page in a browser", func(t *testing.T) {
		if status, _ := w.post("/", `{}`, "Origin", "http://"+w.address); status != http.StatusForbidden {
			t.Errorf("%d", status)
		}
	})
}

// like reports whether text is as pattern says, where * is any text.
func like(text, pattern string) bool {
	text = strings.TrimSuffix(text, "\n")
	first, rest, more := strings.Cut(pattern, "*")
	if !strings.HasPrefix(text, first) {
		return false
	}
	for text = text[len(first):]; more; {
		if first, rest, more = strings.Cut(rest, "*"); !more {
			return strings.HasSuffix(text, first)
		}
		i := strings.Index(text, first)
		if i < 0 {
			return false
		}
		text = text[i+len(first):]
	}
	return text == ""
}

// What cannot register is told why.
func TestRegistrationFails(t *testing.T) {
	w := newWorld(t)
	w.serve()
	at := "http://127.0.0.1:9"
	var many []any
	for i := range maxEndpoints {
		many = append(many, map[string]any{"protocol": "http", "uri": fmt.Sprint(at, "/", i)})
	}
	for name, c := range map[string]struct {
		card     map[string]any
		endpoint string
		want     string
	}{
		"no id":               {map[string]any{"name": "A", "description": "a"}, at, "agent_id is empty"},
		"an id with spaces":   {map[string]any{"agent_id": "a b", "name": "A", "description": "a"}, at, "has a space"},
		"Cortex's own":        {map[string]any{"agent_id": "cortex", "name": "A", "description": "a"}, at, "Cortex's own"},
		"the registry":        {map[string]any{"agent_id": "rtfs", "name": "A", "description": "a"}, at, "Cortex's own"},
		"another's prefix":    {map[string]any{"agent_id": "agent:x", "name": "A", "description": "a"}, at, `does not begin with "agent:"`},
		"a caller":            {map[string]any{"agent_id": "rtfs:anonymous", "name": "A", "description": "a"}, at, `does not begin with "rtfs:"`},
		"a person":            {map[string]any{"agent_id": "user:x", "name": "A", "description": "a"}, at, "kept for people"},
		"no name":             {map[string]any{"agent_id": "a", "description": "a"}, at, "name is missing"},
		"nothing to choose":   {map[string]any{"agent_id": "a", "name": "A"}, at, "capabilities and description are missing"},
		"wrong types":         {map[string]any{"agent_id": "a", "name": 7}, at, "name must not be a number"},
		"a capability twice":  {map[string]any{"agent_id": "a", "name": "A", "capabilities": []any{map[string]any{"capability_id": "x"}, map[string]any{"capability_id": "x"}}}, at, "twice"},
		"too large":           {map[string]any{"agent_id": "a", "name": "A", "description": strings.Repeat("x", maxCard)}, at, "bytes"},
		"no URL":              {pdf("a", at), "pdf", "no URL"},
		"another scheme":      {pdf("a", at), "file:///etc/passwd", "no URL"},
		"a password":          {pdf("a", at), "http://a:b@127.0.0.1:9/", "password"},
		"a private address":   {pdf("a", at), "http://10.0.0.7:8080/", "--rtfs-host"},
		"metadata of a cloud": {pdf("a", at), "http://169.254.169.254/latest", "--rtfs-host"},
		"in the card":         {pdf("a", "http://192.168.1.1/"), at, "--rtfs-host"},
		"too many endpoints":  {map[string]any{"agent_id": "a", "name": "A", "description": "a", "communication": map[string]any{"endpoints": many}}, at, "at most 8 are called"},
	} {
		t.Run(name, func(t *testing.T) {
			err := w.library("rtfs.registry.register", map[string]any{"agent_card": c.card, "endpoint_url": c.endpoint, "ttl_seconds": 60}, nil)
			if err == nil || !strings.HasPrefix(err.Error(), "-32001: Registration failed: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("register = %v, want -32001 with %q", err, c.want)
			}
		})
	}
}

// A card comes back as it was given, with everything that the client library requires.
func TestCardComesBack(t *testing.T) {
	w := newWorld(t)
	w.serve()
	at := "http://127.0.0.1:9/rtfs"
	given := pdf("pdf-tools-1", at)
	w.register(given, at, 60)
	status, got := w.post("/", `{"jsonrpc":"2.0","id":"d","method":"rtfs.registry.discover","params":{"agent_id":"pdf-tools-1"}}`)
	var r struct {
		Result struct {
			Agents []map[string]any `json:"agents"`
		} `json:"result"`
	}
	must(t, json.Unmarshal([]byte(got), &r))
	want, is := map[string]any{}, map[string]any{}
	for from, to := range map[*map[string]any]*map[string]any{&given: &want, &r.Result.Agents[0]: &is} {
		b, err := json.Marshal(*from)
		must(t, err)
		must(t, json.Unmarshal(b, to))
	}
	if diff := cmp.Diff(want, is); status != 200 || diff != "" {
		t.Errorf("the card has changed (-want +got):\n%s", diff)
	}
	// A sparse one of the specification, with inline schemas and fields of older versions.
	w.register(map[string]any{
		"agent_id": "sparse", "name": "Sparse", "capabilities_summary": []string{"x"}, "last_updated": "2025-06-13", "provider_id": "p",
		"capabilities": []any{map[string]any{"capability_id": "x", "input_schema_ref": map[string]any{"type": "object"}, "output_schema_ref": "https://example.com/s.json"}},
	}, at, nil)
	all := w.discover(map[string]any{"agent_id": "sparse"})
	if len(all) != 1 || *all[0].Capabilities[0].Input != `{"type":"object"}` || *all[0].Capabilities[0].Output != "https://example.com/s.json" {
		t.Errorf("discover = %+v", all)
	}
}

// All criteria hold, in either of their forms.
func TestDiscover(t *testing.T) {
	w := newWorld(t)
	w.serve()
	at := "http://127.0.0.1:9"
	w.register(pdf("b-pdf", at), at, 60)
	w.register(map[string]any{
		"agent_id": "a-ocr", "name": "OCR", "version": "0.9.0", "description": "Reads letters in pictures", "discovery_tags": []string{"pdf", "images"},
		"metadata": map[string]any{"owner": "vision", "cost": 3, "gpu": true},
		"capabilities": []any{
			map[string]any{"capability_id": "ocr.read", "description": "Finds the text", "version": "1.9.0"}, map[string]any{"capability_id": "ocr.boxes", "description": "Finds boxes"},
		},
	}, at, 60)
	w.register(map[string]any{"agent_id": "c-old", "name": "Old one", "version": "latest", "description": "Was here"}, at, 60)
	for _, c := range []struct{ criteria, want string }{
		{`{}`, "a-ocr b-pdf c-old"},
		{`{"agent_id":"b-pdf"}`, "b-pdf"},
		{`{"agent_id":null,"capability_id":null,"version_constraint":null,"discovery_tags":null,"limit":null,"discovery_query":null}`, "a-ocr b-pdf c-old"},
		{`{"agent_id":"b-pdf","capability_id":"ocr.read"}`, ""},
		{`{"capability_id":"ocr.boxes"}`, "a-ocr"},
		{`{"capabilities":["ocr.boxes","ocr.read"]}`, "a-ocr"},
		{`{"discovery_tags":["pdf"]}`, "a-ocr b-pdf"},
		{`{"discovery_tags":["pdf","images"]}`, "a-ocr"},
		{`{"tags":["images"]}`, "a-ocr"},
		{`{"discovery_tags":["PDF"]}`, ""},
		{`{"capability_id":"pdf.split","version_constraint":">=1.9.0"}`, "b-pdf"}, // 1.10.0, which is less as a text
		{`{"capability_id":"ocr.read","version_constraint":">1.9.0"}`, ""},
		{`{"capability_id":"ocr.boxes","version_constraint":"0.9.0"}`, "a-ocr"}, // it has none of its own
		{`{"version_constraint":">=1.2.0 <2.0.0"}`, "b-pdf"},
		{`{"version_constraint":">=0.5, <1"}`, "a-ocr"},
		{`{"version_constraint":"^1.4"}`, "b-pdf"},
		{`{"version_constraint":"~0.9"}`, "a-ocr"},
		{`{"version_constraint":"!=1.4.0"}`, "a-ocr"},
		{`{"version_constraint":"=1.4.0"}`, "b-pdf"},
		{`{"version_range":"latest"}`, "c-old"},
		{`{"discovery_query":{"name_contains":"TOOLS"}}`, "b-pdf"},
		{`{"name_contains":"TOOLS"}`, "b-pdf"},
		{`{"name_contains":"ocr","discovery_query":{"name_contains":"pdf"}}`, "b-pdf"},
		{`{"text_search":"READS"}`, "a-ocr b-pdf"},
		{`{"text_search":"boxes"}`, "a-ocr"},
		{`{"min_capabilities":2}`, "a-ocr"},
		{`{"owner":"vision"}`, "a-ocr"},
		{`{"discovery_query":{"cost":3,"gpu":true}}`, "a-ocr"},
		{`{"discovery_query":{"cost":4}}`, ""},
		{`{"timeout_ms":5,"registry_uri":"x"}`, "a-ocr b-pdf c-old"},
		{`{"limit":2}`, "a-ocr b-pdf"},
		{`{"max_results":1}`, "a-ocr"},
		{`{"limit":0}`, ""},
	} {
		var criteria map[string]any
		must(t, json.Unmarshal([]byte(c.criteria), &criteria))
		if got := w.ids(criteria); got != c.want {
			t.Errorf("discover(%s) = %q, want %q", c.criteria, got, c.want)
		}
	}
	if _, got := w.post("/", `{"jsonrpc":"2.0","id":"d","method":"rtfs.registry.discover","params":{"limit":1}}`); !strings.Contains(got, `"total_count":3`) {
		t.Errorf("with a limit: %s", got)
	}
}

// What a search answers has a bound in bytes, and so has what cards take.
func TestLongCards(t *testing.T) {
	w := newWorld(t)
	w.serve()
	const at, many = "http://127.0.0.1:9", 40
	long := func(id string) map[string]any {
		return map[string]any{"agent_id": id, "name": "A", "description": "a", "metadata": map[string]any{"about": strings.Repeat("x", maxCard-1<<10)}}
	}
	for i := range many {
		w.register(long(fmt.Sprintf("a-%02d", i)), at, 60)
	}
	_, got := w.post("/", `{"jsonrpc":"2.0","id":"d","method":"rtfs.registry.discover","params":{"limit":1000}}`)
	if n := strings.Count(got, `"agent_id"`); len(got) > maxFound+1<<10 || n == many || n < many/2 || !strings.Contains(got, fmt.Sprintf(`"total_count":%d`, many)) {
		t.Errorf("the answer has %d bytes and %d agents", len(got), n)
	}
	w.b.leases.held = (many + 1) * maxCard
	register := func(id string) error {
		return w.library("rtfs.registry.register", map[string]any{"agent_card": long(id), "endpoint_url": at, "ttl_seconds": 60}, nil)
	}
	if err := register("b-1"); err != nil {
		t.Errorf("a card for which there is room: %v", err)
	}
	if err := register("b-2"); err == nil || !strings.HasPrefix(err.Error(), "-32003: the cards") {
		t.Errorf("a card for which there is no room: %v", err)
	}
	w.b.leases.held = 1
	if err := register("b-1"); err != nil {
		t.Errorf("a card that is there: %v", err)
	}
}

// A machine whose searches take all that one may have keeps others from none.
func TestSearchesHaveRoom(t *testing.T) {
	w := newWorld(t)
	w.serve()
	search := func(from string) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		r.RemoteAddr = from
		give, err := w.b.enter(ctx, "rtfs.registry.discover", r)
		give()
		return err
	}
	const own = "192.0.2.1"
	if !w.b.room.Take(t.Context(), own, ownFinding) {
		t.Fatal("there is no room")
	}
	if err := search(own + ":1"); err == nil || !strings.Contains(err.Error(), "too many searches") {
		t.Errorf("a search of who has no room left: %v", err)
	}
	if err := search("192.0.2.2:1"); err != nil {
		t.Errorf("a search of another: %v", err)
	}
	w.b.room.Give(own, ownFinding)
	if err := search(own + ":1"); err != nil {
		t.Errorf("a search after the others: %v", err)
	}
}
