package cortex_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

var entryTime = time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC)

// oldEntries are entries of builds that encoded them completely with encoding/json.
var oldEntries = map[string]*conversation.Entry{
	`{"seq":1,"time":"2026-05-06T07:08:09.123456789Z","life":"l","cause":{"id":"m","time":"2026-05-06T07:08:09.123456789Z","from":"user","to":"cortex","contextId":"c","deliverAt":"2026-05-06T07:08:09.123456789Z","kind":"message","v":"1","payload":{"messageId":"m","metadata":{"ancestors":["a"],"hops":2},"parts":[{"text":"\u003cone\u003e \u0026 \"two\"\n\u2028 🧠"},{"raw":"AP8="},{"data":{"k":null}}],"role":"ROLE_USER"}},"turn":"m","decision":{"kind":"delegate","say":"yes","delegations":[{"id":"1","agent":"echo","task":"say it","input":{"a":[1]}}],"usage":{"input":3}},"terms":{"1":{"timeout":60000000000}},"deadline":"2026-05-06T07:09:09.123456789Z"}`: {
		Seq: 1, Time: entryTime, Life: "l", Turn: "m",
		Cause: &transport.Event{
			ID: "m", Time: entryTime, From: "user", To: "cortex", ContextID: "c", DeliverAt: entryTime,
			Payload: &a2a.Message{
				ID: "m", Role: a2a.MessageRoleUser, Metadata: map[string]any{"hops": 2.0, "ancestors": []any{"a"}},
				Parts: a2a.ContentParts{
					a2a.NewTextPart("<one> & \"two\"\n\u2028 \U0001F9E0"), a2a.NewRawPart([]byte{0, 255}), a2a.NewDataPart(map[string]any{"k": nil}),
				},
			},
		},
		Decision: &llm.Decision{
			Kind: llm.KindDelegate, Say: "yes", Usage: llm.Usage{Input: 3},
			Delegations: []llm.Delegation{{ID: "1", Agent: "echo", Task: "say it", Input: json.RawMessage(`{"a":[1]}`)}},
		},
		Terms: map[string]conversation.Terms{"1": {Timeout: time.Minute}}, Deadline: entryTime.Add(time.Minute),
	},
	`{"seq":2,"time":"2026-05-06T07:08:09.123456789Z","cause":{"id":"x","time":"2026-05-06T07:08:09.123456789Z","from":"echo","kind":"telepathy","v":"9","data":"AAE="}}`: {
		Seq: 2, Time: entryTime,
		Cause: &transport.Event{ID: "x", Time: entryTime, From: "echo", Payload: &transport.Opaque{Kind: "telepathy", Version: "9", Data: []byte{0, 1}}},
	},
}

// webEscapes replaces the escapes that old builds wrote by the characters that are written now.
var webEscapes = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&")

// TestOldEntries checks the form of an entry: old ones can be read, and new ones are the same except for needless escapes.
func TestOldEntries(t *testing.T) {
	for text, want := range oldEntries {
		var got conversation.Entry
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("Unmarshal(%s) = %v", text, err)
		}
		if diff := cmp.Diff(want, &got, cmpopts.IgnoreUnexported(transport.Event{})); diff != "" {
			t.Errorf("%s is read as (-want +got):\n%s", text, diff)
		}
		text = webEscapes.Replace(text)
		if b, err := want.MarshalJSON(); err != nil || string(b) != text {
			t.Errorf("MarshalJSON = %s, %v, want %s", b, err, text)
		}
	}
}

// TestEntryGrows decodes into entries that have values already, as encoding/json does.
func TestEntryGrows(t *testing.T) {
	const cause = `{"seq":2,"time":"2026-05-06T07:08:09Z","cause":{"id":"new","kind":"cancel","v":"1","payload":{}}}`
	for _, text := range []string{`{"decision":{"kind":"respond","say":"b"}}`, cause, `{"cause":null}`, `{"turn":7}`, `null`} {
		for _, with := range []*transport.Event{nil, {ID: "old", Payload: &transport.Forget{}}} {
			had := conversation.Entry{Version: 3, Seq: 1, Turn: "t", Decision: &llm.Decision{Say: "a", Reason: "r"}, Failure: "f"}
			std := stdEntry(had)
			std.Decision = new(*had.Decision)
			if with != nil {
				had.Cause, std.Cause = new(*with), new(*with)
			}
			err, wantErr := json.Unmarshal([]byte(text), &had), json.Unmarshal([]byte(text), &std)
			if want := conversation.Entry(std); (err != nil) != (wantErr != nil) || !reflect.DeepEqual(had, want) {
				t.Errorf("with %s the entry is\n%+v, %v, want\n%+v, %v", text, had, err, want, wantErr)
			}
		}
	}
}

// stdEntry has no methods, so encoding/json decodes it field by field.
type stdEntry conversation.Entry

// oddEntries have another form than MarshalJSON writes.
var oddEntries = []string{
	`{"seq":1,"time":"2026-05-06T07:08:09Z"}`,
	`{"seq":1,"time":"2026-05-06T07:08:09Z","cause":null}`,
	`{"seq":1,"cause":{"kind":"cancel","v":"1","payload":{}},"cause":{"kind":"forget","v":"1","payload":{}}}`,
	`{"seq":1,"cause":{"kind":"cancel","v":"1","payload":{}},"cause":null}`,
	`{"seq":1,"cause":{"kind":"cancel","v":"1","payload":{}},"CAUSE":{"id":"e","kind":"forget","v":"1","payload":{}}}`,
	`{"seq":1,"CAUSE":{"kind":"cancel","v":"1","payload":{}},"cause":{"kind":"forget","v":"1","payload":{}}}`,
	`{"seq":1,"cause":{"kind":"cancel","v":"1","payload":{}}`,
	`{"seq":1,"cause":{"kind":"cancel","v":"1","payload":{}}} x`,
	`{"seq":1,"cause":{"kind":"cancel","v":"1","payload":{}}],"turn":"t"}`,
	`{"seq":1,"cause":{"kind":"cancel","v":"1","payload":{"reason":"\\\"}{"}},"turn":"t"}`,
	`{"seq":1,"cause":{"kind":"cancel","v":"1","payload":7},"turn":"t"}`,
	`{"seq":1,"cause":{},"turn":"t"}`,
	`{"seq":1,"cause":7,"turn":"t"}`,
	`{"seq":1,"cause":[{"kind":"cancel","v":"1","payload":{}}],"turn":"t"}`,
	`{"seq":1,"life":"x,"cause":{"kind":"cancel","v":"1","payload":{}}y"}`,
	`{"seq":1,"life":"x,"cause":{"kind":"cancel","v":"1","payload":{}},"}`,
	`{"seq":1,"cause":{"kind":"cancel","v":"1","payload":{}}2,"turn":"t"}`,
	`{"seq":1,"life":"x\",\"cause\":{}","cause":{"kind":"cancel","v":"1","payload":{}}}`,
	`{"seq":1,"life":"\",,"cause":{"kind":"cancel","v":"1","payload":{}},"turn":""}`,
	`{"seq":1,"terms":{"a":{},"cause":{"kind":"cancel","v":"1","payload":{}}}}`,
	`{"seq":,"cause":{"kind":"cancel","v":"1","payload":{}},"turn":"t"}`,
	`{"seq":1,,"cause":{"kind":"cancel","v":"1","payload":{}}}`,
	`{"seq":1,"cause":{"kind":"cancel","v":"1","payload":{}},}`,
	`{"seq":1,"cause": {"kind":"cancel","v":"1","payload":{}} , "turn":"t"}`,
	`{"cause":{"kind":"cancel","v":"1","payload":{}},"seq":1}`,
	`{,"cause":{"kind":"cancel","v":"1","payload":{}}}`,
	`{"seq":"1","cause":{"kind":"cancel","v":"1","payload":{}}}`,
	`{"seq":0,"cause":\`,
	`null`, `[]`, ``, `{`,
}

// FuzzEntry checks that entries are decoded and encoded as by encoding/json, except for needless escapes.
func FuzzEntry(f *testing.F) {
	for text := range oldEntries {
		f.Add([]byte(text))
	}
	for _, text := range oddEntries {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var got conversation.Entry
		var std stdEntry
		err, wantErr := got.UnmarshalJSON(b), json.Unmarshal(b, &std)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("UnmarshalJSON(%q) = %v, encoding/json says %v", b, err, wantErr)
		}
		want := conversation.Entry(std)
		if err != nil {
			return
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is read as\n%+v, want\n%+v", b, got, want)
		}
		text, err := got.MarshalJSON()
		wantText, wantErr := json.Marshal(&std)
		var escaped bytes.Buffer
		json.HTMLEscape(&escaped, text)
		if escaped.String() != string(wantText) || (err != nil) != (wantErr != nil) {
			t.Errorf("written as\n%q, %v, want\n%q, %v", text, err, wantText, wantErr)
		}
	})
}

// TestDeepEntry checks that an entry nested too deeply to be read is not written, or its conversation would be lost.
func TestDeepEntry(t *testing.T) {
	for depth := 9_990; depth < 10_000; depth++ {
		e := &conversation.Entry{Cause: &transport.Event{ID: "e", From: "f"}}
		body := `{"id":"t","status":{"state":"TASK_STATE_WORKING"},"metadata":{"k":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}}"
		if e.Cause.Decode("task", transport.PayloadVersion, []byte(body)) != nil {
			continue
		}
		if b, err := e.MarshalJSON(); err == nil && json.Unmarshal(b, new(conversation.Entry)) != nil {
			t.Errorf("an entry with a payload of %d levels is written, and cannot be read", depth)
		}
	}
}

func BenchmarkEntry(b *testing.B) {
	text := strings.Repeat("words ", 20)
	id := "0197e6ac-8a11-7c54-b0c8-1f2b3c4d5e6f"
	event := func(kind, body string) *transport.Event {
		e := &transport.Event{ID: id, Time: entryTime, From: "user:bench-17", To: "cortex", ContextID: "bench-17", TaskID: a2a.TaskID(id)}
		if err := e.Decode(kind, transport.PayloadVersion, []byte(body)); err != nil {
			b.Fatal(err)
		}
		return e
	}
	meta := `"metadata":{"agent_id":"worker-1","created_at":"2026-05-06T07:08:09Z","original":"` + id + `","task_id":"` + id + `","task_type":"echo_result"}`
	for name, e := range map[string]*conversation.Entry{
		"delegates": {
			Seq: 1, Time: entryTime, Turn: id, Deadline: entryTime,
			Cause: event("message", `{"messageId":"`+id+`","contextId":"bench-17","parts":[{"text":"`+text+text+`"}],"role":"ROLE_USER"}`),
			Decision: &llm.Decision{
				Kind: llm.KindDelegate, Reason: "asked to", Model: "fake",
				Delegations: []llm.Delegation{{ID: "1", Agent: "worker-1", Skill: "echo", Task: text}},
			},
		},
		"result": {
			Seq: 2, Time: entryTime, Turn: id,
			Cause: event("task", `{"id":"`+id+`","artifacts":[{"artifactId":"a","name":"report","parts":[{"text":"`+text+`"}]}],"contextId":"bench-17",`+meta+
				`,"status":{"message":{"messageId":"`+id+`","contextId":"bench-17",`+meta+`,"parts":[{"text":"`+text+`"}],"role":"ROLE_AGENT","taskId":"`+id+
				`"},"state":"TASK_STATE_COMPLETED","timestamp":"2026-05-06T07:08:09.123456789Z"}}`),
		},
	} {
		data, err := e.MarshalJSON()
		if err != nil {
			b.Fatal(err)
		}
		b.Run("write/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.MarshalJSON(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("read/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := new(conversation.Entry).UnmarshalJSON(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
