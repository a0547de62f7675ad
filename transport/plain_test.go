package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// TestFields compares the fields with the types: a field that a later a2a adds would not be encoded.
func TestFields(t *testing.T) {
	for _, p := range []any{
		&a2a.Message{}, &a2a.Task{}, &a2a.TaskStatus{}, &a2a.Artifact{}, &a2a.TaskStatusUpdateEvent{}, &a2a.TaskArtifactUpdateEvent{}, &eventJSON{},
	} {
		f, v := fieldsOf(p), reflect.ValueOf(p).Elem()
		if n := v.NumField(); f[n-1].name == "" || n < len(f) && f[n].name != "" {
			t.Errorf("%T has %d fields, and others are known", p, n)
			continue
		}
		for i := range v.NumField() {
			name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if always := option == ""; f[i].name != name || f[i].always != always || reflect.ValueOf(f[i].value).Pointer() != v.Field(i).Addr().Pointer() {
				t.Errorf("field %d of %T is %s,%s; known is %q, always %v", i, p, name, option, f[i].name, f[i].always)
			}
		}
	}
	if n := reflect.TypeFor[a2a.Part]().NumField(); n != 4 {
		t.Errorf("a part has %d fields, 4 are known", n)
	}
}

// hot are the kinds that this package decodes and encodes itself.
var hot = []string{"message", "task", "status-update", "artifact-update"}

// sameRead fails the test unless body is decoded as by encoding/json, except for numbers that a float64 cannot represent, and the result is encoded
// as by encoding/json, except for escapes. It reports whether body was plain.
func sameRead(t *testing.T, kind string, body []byte) bool {
	t.Helper()
	got, std := newPayload(kind, PayloadVersion), newPayload(kind, PayloadVersion)
	plain := readPlain(body, got, true)
	want, err := unmarshal(kind, PayloadVersion, body)
	if stdErr := json.Unmarshal(body, std); (err != nil) != (stdErr != nil) {
		t.Errorf("%s %q is read with %v, encoding/json says %v", kind, body, err, stdErr)
	} else if err == nil {
		rounded, _ := unmarshal(kind, PayloadVersion, body)
		replaceIn(rounded, func(v any) any {
			if n, ok := v.(json.Number); ok {
				v, _ = n.Float64()
			}
			return v
		})
		if !reflect.DeepEqual(rounded, std) {
			t.Errorf("%s %q is read as\n%#v, encoding/json reads\n%#v", kind, body, rounded, std)
		}
	}
	if plain && (err != nil || !reflect.DeepEqual(got, want)) {
		t.Errorf("%s %q is read as\n%#v, encoding/json reads\n%#v, %v", kind, body, got, want, err)
	}
	if err == nil {
		sameWritten(t, want)
		if plain {
			sameWritten(t, got) // it may contain a negative zero, which equals zero
		}
	}
	return plain
}

// webEscapes maps the escapes of encoding/json for web pages to what this package writes.
var webEscapes = map[string]string{`\u003c`: "<", `\u003e`: ">", `\u0026`: "&"}

var escapes = regexp.MustCompile(`(?s)\\(u....|.)`)

func sameWritten(t *testing.T, p any) {
	t.Helper()
	got, err := marshal(p)
	want, wantErr := json.Marshal(p)
	want = escapes.ReplaceAllFunc(want, func(b []byte) []byte {
		if c, ok := webEscapes[string(b)]; ok {
			return []byte(c)
		}
		return b
	})
	if err != nil && wantErr == nil && !json.Valid(want) {
		return // which encoding/json can encode but not decode
	}
	if !bytes.Equal(got, want) || (err != nil) != (wantErr != nil) {
		t.Errorf("%#v is written as\n%q, %v, encoding/json writes\n%q, %v", p, got, err, want, wantErr)
	}
}

// nasty are bodies of messages, and whether they are plain.
var nasty = map[string]bool{
	`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"}]}`:                               true,
	" {\n\t\"messageId\" : \"m\" ,\r \"parts\" : [ { \"text\" : \"a\" } , {\"url\":\"u\"} ] } ": true, // as others space it
	`{"parts":[{"text":"na\u00efve \ud83e\udde0 \"\\\/\b\f\n\r\t"}]}`:                           true, // as others escape it
	`{"parts":[{"text":"naïve 🧠"}]}`:                                                            true,
	`{}`:                                                                                        true,
	`{"parts":[],"extensions":[],"referenceTaskIds":[],"metadata":{}}`:                          true,
	`{"role":"ROLE_UNSPECIFIED"}`:                                                               true,
	`{"role":"ROLE_WIZARD"}`:                                                                    true,
	`{"metadata":{"a":null,"b":true,"c":false,"d":-0,"e":1e3,"f":[],"g":{},"h":[1,"x",[2]],"i":12345678901234567890}}`: true,
	`{"metadata":{"a":1,"a":{"x":1},"a":{"y":2}}}`:                                                                     true, // the last
	`{"metadata":{"\u0061":1,"a":2}}`:                                                                                  true,
	`{"metadata":{"a":5e-324,"b":1e-7,"c":1e21,"d":0.1}}`:                                                              true,
	`{"parts":[{"raw":"AP8="},{"raw":""},{"data":[1]},{"data":""},{"data":false},{"text":""}]}`:                        true,
	`{"parts":[{"raw":"AP\n8="}]}`:                                                                                     true,
	`{"parts":[{"text":"a","metadata":{"k":1},"filename":"f","mediaType":"t"}]}`:                                       true,
	`{"parts":[{"text":"\ud800"}]}`:                                                                                    true, // half a character

	`{"messageId":"a","messageId":"b"}`:               false,
	`{"metadata":{"a":1},"metadata":{"b":2}}`:         false, // become one
	`{"parts":[{"text":"a"}],"parts":[{"text":"b"}]}`: false,
	`{"messageid":"a"}`:                               false, // counts all the same
	`{"MESSAGEID":"a","messageId":"b"}`:               false,
	`{"message\u0049d":"a"}`:                          false,
	`{"me\u017f\u017fageId":"a"}`:                     false,
	`{"meſſageId":"a"}`:                               false,
	`{"":"a"}`:                                        false,
	`{"":}`:                                           false,
	`{"strange":1}`:                                   false,
	`{"role":null}`:                                   false,
	`{"messageId":null,"parts":null,"metadata":null,"extensions":null}`: false,
	`{"extensions":[null]}`:               false,
	`{"parts":[null]}`:                    false,
	`{"parts":[{}]}`:                      false,
	`{"parts":[{"text":"a","url":"b"}]}`:  false,
	`{"parts":[{"text":"a","url":""}]}`:   true,
	`{"parts":[{"text":null,"url":"a"}]}`: false,
	`{"parts":[{"text":"a","text":"b"}]}`: false,
	`{"parts":[{"url":""}]}`:              false,
	`{"parts":[{"data":null}]}`:           false,
	`{"parts":[{"raw":"!"}]}`:             false,
	`{"parts":[{"raw":"AP8"}]}`:           false,
	`{"parts":[{"raw":[1]}]}`:             false,
	`{"parts":{}}`:                        false,
	`{"parts":[{"text":"a"},]}`:           false,
	`{"parts":[{"text":"a"}`:              false,
	`{"parts":[{"text":"a"}]`:             false,
	`{"messageId":"a",}`:                  false,
	`{,"messageId":"a"}`:                  false,
	`{"messageId" "a"}`:                   false,
	`{"messageId":7}`:                     false,
	`{"messageId":"a"} x`:                 false,
	`{"messageId":"a"}{}`:                 false,
	"{\"messageId\":\"a\x00\"}":           false,
	"{\"messageId\":\"a\xff\"}":           false,
	"{\"metadata\":{\"\xff\":1}}":         false,
	"\ufeff{}":                            false,
	"{}\x00":                              false,
	"{\u00a0}":                            false,
	`{"messageId":"a\`:                    false,
	`{"messageId":"a\"`:                   false,
	`{"messageId":"\x"}`:                  false,
	`{"messageId":"\u12"}`:                false,
	`{"metadata":{"a":1e999}}`:            false,
	`{"metadata":{"a":01}}`:               false,
	`{"metadata":{"a":+1}}`:               false,
	`{"metadata":{"a":.5}}`:               false,
	`{"metadata":{"a":1.}}`:               false,
	`{"metadata":{"a":-}}`:                false,
	`{"metadata":{"a":NaN}}`:              false,
	`{"metadata":{"a":nul}}`:              false,
	`{"metadata":{"a":nullx}}`:            false,
	`{"metadata":{"a":tru`:                false,
	`{"metadata":{"a"`:                    false,
	`{"metadata":[]}`:                     false,
	`{'messageId':'a'}`:                   false,
	`{/**/}`:                              false,
	`null`:                                false,
	`[]`:                                  false,
	`"a"`:                                 false,
	``:                                    false,
	` `:                                   false,
	`{`:                                   false,
	nested(maxPlain):                      true,
	nested(maxPlain + 1):                  false,
	nested(9_990):                         false,
	nested(10_010):                        false,
	strings.Repeat("[", 1<<20):            false,
	`{"metadata":` + strings.Repeat(`{"a":`, 1<<18): false,
}

func nested(depth int) string {
	return `{"metadata":{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}}`
}

func TestNasty(t *testing.T) {
	for body, want := range nasty {
		if got := sameRead(t, "message", []byte(body)); got != want {
			t.Errorf("%.100q is plain %v, want %v", body, got, want)
		}
	}
	for body, want := range map[string]bool{
		`{"id":"t","status":{"state":"TASK_STATE_UNSPECIFIED","timestamp":"2026-05-06T07:08:09.123456789+02:00"},"history":[],"artifacts":[]}`: true,
		`{"id":"t","status":{"state":"a"},"history":[{"parts":[{"text":"a"}]}],"artifacts":[{"artifactId":"a","parts":[]}]}`:                   true,
		`{"status":{"state":"a"},"status":{"message":{}}}`:                                                                                     false, // become one
		`{"status":{"state":"a","state":"b"}}`:                                                                                                 false,
		`{"status":{"message":null}}`:                                                                                                          false,
		`{"status":{"timestamp":null}}`:                                                                                                        false,
		`{"status":{"timestamp":"yesterday"}}`:                                                                                                 false,
		`{"status":{"timestamp":"2026-05-06T07:08:09\u005a"}}`:                                                                                 false,
		`{"status":{"timestamp":"2026-05-06T07:08:09,5Z"}}`:                                                                                    true,
		`{"status":{"timestamp":"2026-05-06T07:08:09+24:00"}}`:                                                                                 false,
		`{"history":[null]}`:   false,
		`{"artifacts":[null]}`: false,
		`{"history":[{"messageId":"a"}],"history":[{"parts":[]}]}`: false,
		`{"history":{}}`: false,
	} {
		if got := sameRead(t, "task", []byte(body)); got != want {
			t.Errorf("%.100q is plain %v, want %v", body, got, want)
		}
	}
	for body, want := range map[string]bool{
		`{"append":true,"lastChunk":false,"artifact":{"artifactId":"a","name":"n","description":"d","extensions":["e"],"metadata":{},"parts":[]}}`: true,
		`{"append":"true"}`:             false,
		`{"append":null}`:               false,
		`{"append":truely}`:             false,
		`{"artifact":null}`:             false,
		`{"artifact":{},"artifact":{}}`: false,
	} {
		if got := sameRead(t, "artifact-update", []byte(body)); got != want {
			t.Errorf("%.100q is plain %v, want %v", body, got, want)
		}
	}
}

// TestWritten encodes values that cannot be decoded from JSON.
func TestWritten(t *testing.T) {
	at := time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.FixedZone("", 3600))
	far := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	round := map[string]any{}
	round["a"], round["b"] = round, []any{round, round}
	ring := []any{nil, nil}
	ring[0], ring[1] = ring, ring
	deep := any("x")
	for range 2 * maxPlain {
		deep = map[string]any{"a": []any{deep}}
	}
	for _, v := range []any{
		nil, 7, -7, int64(7), uint8(7), 0.0, math.Copysign(0, -1), 1.5, 1e-7, 1e21, -1e300, math.MaxFloat64, 5e-324, float32(0.1), math.NaN(), math.Inf(1),
		"", "naïve \U0001F9E0", "<&>", "\u2028\u2029", "\xff", "\x00\x1f\x7f", `"\`, a2a.TaskID("t"), json.Number("1e5"), json.Number("x"),
		[]string(nil),
		[]string{},
		[]string{"a", "<"},
		[]any(nil),
		[]any{nil, []any{}},
		map[string]any(nil),
		map[string]any{},
		map[string]string{"b": "1", "a": "2"},
		map[string]any{"b": 1, "a": 2, "<": 3, "\xff": 4, "": 5},
		json.RawMessage(` {"a": 1 } `), json.RawMessage("{"), json.RawMessage(nil), []byte("x"),
		at, far, &at, (*time.Time)(nil), time.Second, make(chan int),
		struct{ A int }{1},
		errors.New("x"), round, ring, deep, &a2a.Part{},
	} {
		sameWritten(t, &a2a.Message{Parts: a2a.ContentParts{a2a.NewDataPart(v)}})
		sameWritten(t, &a2a.Message{Metadata: map[string]any{"k": v, "l": "after"}})
		sameWritten(t, &a2a.Message{Metadata: map[string]any{"k": []any{map[string]any{"x": v}}}})
	}
	for depth := 9_996; depth < 10_001; depth++ {
		var v any
		for range depth {
			v = []any{v}
		}
		for _, m := range []*a2a.Message{{Metadata: map[string]any{"k": v}}, {Parts: a2a.ContentParts{a2a.NewDataPart(v)}}} {
			sameWritten(t, m)
			if b, err := marshal(m); err == nil && !json.Valid(b) {
				t.Errorf("data of %d levels is written so that it cannot be read", depth)
			}
		}
	}
	for _, p := range []any{
		&a2a.Message{}, &a2a.Message{Parts: a2a.ContentParts{}}, &a2a.Message{Parts: a2a.ContentParts{nil, {}, {Content: a2a.Raw(nil)}, {Content: a2a.URL("")}}},
		&a2a.Message{Metadata: map[string]any{}, Extensions: []string{}, ReferenceTasks: []a2a.TaskID{"a", "<"}},
		&a2a.Task{}, &a2a.Task{History: []*a2a.Message{nil, {}}, Artifacts: []*a2a.Artifact{nil, {}}}, &a2a.Task{History: []*a2a.Message{}},
		&a2a.Task{Status: a2a.TaskStatus{Timestamp: &at, Message: &a2a.Message{}}}, &a2a.Task{Status: a2a.TaskStatus{Timestamp: &far}},
		&a2a.TaskStatusUpdateEvent{}, &a2a.TaskArtifactUpdateEvent{}, &a2a.TaskArtifactUpdateEvent{Append: true, LastChunk: true, Artifact: &a2a.Artifact{}},
		&Deadline{At: far}, &Cancel{},
		eventJSON{},
		&eventJSON{Data: []byte{}}, &eventJSON{Time: far}, &eventJSON{DeliverAt: &at},
	} {
		sameWritten(t, p)
	}
}

func FuzzPlain(f *testing.F) {
	for body := range nasty {
		if len(body) < 1<<10 {
			f.Add(uint8(0), []byte(body))
		}
	}
	for i, body := range []string{
		`{"messageId":"m","contextId":"c","extensions":["e"],"metadata":{"k":[1,"v",null]},"parts":[{"text":"t"}],"referenceTaskIds":["t"],"role":"ROLE_USER","taskId":"t"}`,
		`{"id":"t","artifacts":[{"artifactId":"a","parts":[{"data":{"x":1}}]}],"contextId":"c","history":[{"messageId":"m"}],"metadata":{},"status":{"message":{"parts":[]},"state":"s","timestamp":"2026-05-06T07:08:09.1Z"}}`,
		`{"contextId":"c","status":{"state":"s"},"taskId":"t","metadata":{"k":true}}`,
		`{"append":true,"artifact":{"artifactId":"a","description":"d","extensions":[],"metadata":{},"name":"n","parts":[{"raw":"AA=="},{"url":"u"}]},"contextId":"c","lastChunk":true,"taskId":"t"}`,
	} {
		f.Add(uint8(i), []byte(body))
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		sameRead(t, hot[int(kind)%len(hot)], body)
	})
}

// FuzzWritten encodes values with any text, number and time.
func FuzzWritten(f *testing.F) {
	f.Add("a", "<\xff\u2028", 1.5, 7, []byte("x"), int64(1), int32(3600))
	f.Fuzz(func(t *testing.T, a, b string, x float64, n int, raw []byte, sec int64, zone int32) {
		at := time.Unix(sec, int64(n)).In(time.FixedZone("", int(zone)))
		sameWritten(t, &a2a.Task{
			ID: a2a.TaskID(a), ContextID: b, Metadata: map[string]any{a: b, b: x, "n": n, "at": at, "raw": raw, "all": []any{a, x, n, []string{a, b}}},
			Status: a2a.TaskStatus{State: a2a.TaskState(a), Timestamp: &at, Message: &a2a.Message{
				ID: a, Role: a2a.MessageRole(b), ReferenceTasks: []a2a.TaskID{a2a.TaskID(b)},
				Parts: a2a.ContentParts{a2a.NewTextPart(a), a2a.NewRawPart(raw), a2a.NewDataPart(json.RawMessage(raw)), a2a.NewFileURLPart(a2a.URL(b), a)},
			}},
		})
	})
}

// FuzzEventForm decodes events as encoding/json does.
func FuzzEventForm(f *testing.F) {
	for _, b := range []string{
		`{"id":"e","time":"2026-05-06T07:08:09.1Z","from":"f","to":"t","tenant":"a","contextId":"c","taskId":"t","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=1","deliverAt":"2026-05-06T07:08:09Z","kind":"message","v":"1","payload":{"parts":[{"text":"t"}]}}`,
		`{"v":"1","payload":{"reason":"}\"{"},"kind":"cancel","id":"e"}`,
		`{"kind":"hologram","v":"9","payload":{]}}`,
		`{"kind":"cancel","v":"1","payload":{]}}`,
		`{"kind":"cancel","v":"1","payload":{"a":[}]}}`,
		`{"kind":"cancel","v":"1","payload":{},"payload":{"reason":"r"}}`,
		`{"kind":"cancel","v":"1","payload":{]},"data":""}`,
		`{"kind":"cancel","v":"1","payload":{},"data":null}`,
		`{"kind":"cancel","v":"1","payload":null}`,
		`{"kind":"cancel","v":"1","payload":7}`,
		`{"kind":"cancel","v":"1","payload":{}`,
		`{"kind":"hologram","v":"9","data":"AA=="}`,
		`{"kind":"hologram","v":"9"}`,
		`{"KIND":"cancel","v":"1","payload":{}}`,
		`{"time":null,"deliverAt":null,"kind":"cancel","v":"1","payload":{}}`,
		`null`,
	} {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var got, want Event
		err := got.UnmarshalJSON(b)
		var j eventJSON
		wantErr := json.Unmarshal(b, &j)
		if wantErr == nil {
			var p Payload = &Opaque{Kind: j.Kind, Version: j.Version, Data: j.Data}
			if j.Data == nil {
				p, wantErr = DecodePayload(j.Kind, j.Version, j.Payload)
			}
			want = Event{
				ID: j.ID, Time: j.Time, From: j.From, To: j.To, Tenant: j.Tenant, ContextID: j.ContextID, TaskID: j.TaskID, Traceparent: j.Traceparent,
				Tracestate: j.Tracestate, Payload: p,
			}
			want.Traceparent, want.Tracestate = want.Trace()
			if j.DeliverAt != nil {
				want.DeliverAt = *j.DeliverAt
			}
		}
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("UnmarshalJSON(%q) = %v, encoding/json says %v", b, err, wantErr)
		}
		if err != nil {
			return
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q is read as\n%+v, want\n%+v", b, got, want)
		}
		if c, err := got.MarshalJSON(); err == nil && !json.Valid(c) {
			t.Errorf("%q is written as %q", b, c)
		}
	})
}

// TestOthers checks that payloads with unknown fields are left to encoding/json.
func TestOthers(t *testing.T) {
	for _, kind := range []string{"card", "synced", "agent-event", "deadline", "cancel", "forget", "delta"} {
		if readPlain([]byte("{}"), newPayload(kind, PayloadVersion), false) {
			t.Errorf("an empty %s was read", kind)
		}
	}
}

// TestDecode checks that an event is encoded with the body of its decoded payload, and with no other.
func TestDecode(t *testing.T) {
	const body = `{"role":"ROLE_USER", "parts":[{"text":"<hello>"}],"messageId":"m"}` // encoded differently here
	decode := func(body string) *Event {
		e := &Event{ID: "e", From: "f"}
		if err := e.Decode("message", PayloadVersion, []byte(body)); err != nil {
			t.Fatalf("Decode(%.100s) = %v", body, err)
		}
		return e
	}
	other := &a2a.Message{ID: "other", Parts: a2a.ContentParts{a2a.NewTextPart("other")}}
	for name, c := range map[string]struct {
		e    *Event
		want string // the encoded event's body
	}{
		"as it came":        {decode(body), body},
		"copied":            {new(*decode(body)), body},
		"another payload":   {func() *Event { e := decode(body); e.Payload = other; return e }(), `"messageId":"other"`},
		"its equal":         {func() *Event { e := decode(body); e.Payload = new(*e.Payload.(*a2a.Message)); return e }(), `{"messageId":"m","parts":[{"text":"<hello>"}]`},
		"decoded again":     {func() *Event { e := decode(body); _ = e.Decode("cancel", "1", []byte(`{"reason": "r"}`)); return e }(), `{"reason":"r"}`},
		"twice the same":    {decode(`{"messageId":"a","messageId":"b","parts":[{"text":"t"}]}`), `{"messageId":"b","parts":`},
		"unknown names":     {decode(`{"strange":1,"parts":[{"text":"t"}]}`), `{"messageId":"","parts":`},
		"not UTF-8":         {decode("{\"messageId\":\"\xff\",\"parts\":[{\"text\":\"t\"}]}"), "\"messageId\":\"\ufffd\""},
		"more than allowed": {decode(strings.Repeat(" ", MaxPayload) + body), `{"messageId":"m","parts":`},
	} {
		got, err := c.e.MarshalJSON()
		if err != nil || !bytes.Contains(got, []byte(c.want)) {
			t.Errorf("%s is written as %s, %v, want %s in it", name, got, err, c.want)
		}
	}
	if m := decode("{\"metadata\":{\"\xff\":1},\"parts\":[{\"text\":\"t\"}]}").Payload.(*a2a.Message); len(m.Metadata) != 1 {
		t.Errorf("what was odd is left: %q", m.Metadata)
	}
	e := decode(body)
	if err := e.Decode("message", PayloadVersion, []byte("{")); !errors.Is(err, ErrInvalid) || e.Payload != nil {
		t.Errorf("Decode of no JSON = %v, payload %v, want ErrInvalid and none", err, e.Payload)
	}
	if b, err := e.MarshalJSON(); err == nil {
		t.Errorf("an event without payload is written as %s", b)
	}
}

// TestWhatCameIsWritten encodes events whose payload cannot be encoded again as it came: with other escapes it exceeds the limit on the wire, or a
// time has an invalid zone. The former is encoded, and the latter is not plain.
func TestWhatCameIsWritten(t *testing.T) {
	body := []byte(`{"messageId":"m","parts":[{"data":"` + strings.Repeat("\u2028", MaxPayload/4) + `"}],"role":"ROLE_USER"}`)
	large := &Event{ID: "e", From: "user", ContextID: "c"}
	if err := large.Decode("message", PayloadVersion, body); err != nil {
		t.Fatal(err)
	}
	stored, err := large.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var loaded Event
	if err := loaded.UnmarshalJSON(stored); err != nil {
		t.Fatal(err)
	}
	if dump, err := loaded.MarshalJSON(); err != nil || len(dump) <= MaxPayload {
		t.Errorf("the loaded event is written in %d bytes, %v, want more than %d and no error", len(dump), err, MaxPayload)
	}
	if _, _, _, err := EncodePayload(loaded.Payload); !errors.Is(err, ErrTooLarge) {
		t.Errorf("EncodePayload = %v, want ErrTooLarge: it is for the wire", err)
	}

	late := &Event{ID: "e", From: "agent", ContextID: "c"}
	body = []byte(`{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-05-06T07:08:09+24:00"}}`)
	if err := late.Decode("status-update", PayloadVersion, body); err != nil {
		t.Fatal(err)
	}
	if b, err := late.MarshalJSON(); err == nil {
		t.Errorf("an event that nobody could write again is stored as %s", b)
	}
}

// TestNoWebEscapes checks that characters that web pages need as escapes are not escaped, and that texts that look like their escapes are unchanged.
// A text of the maximum size fits with them.
func TestNoWebEscapes(t *testing.T) {
	const body = `{"messageId":"m","metadata":{"<k>":"a & b"},"parts":[{"text":"<1> & \\u003c \"\u2028\u2029\u0001\" \\"},{"data":{"<":["\\\\u003e","&\n"]}}],"role":"ROLE_USER"}`
	p, err := DecodePayload("message", PayloadVersion, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, got, err := EncodePayload(p); err != nil || string(got) != body {
		t.Errorf("%s is written as\n%s, %v", body, got, err)
	}
	cancel := &Cancel{Reason: `<&> \u0026`}
	if _, _, got, err := EncodePayload(cancel); err != nil || string(got) != `{"reason":"<&> \\u0026"}` {
		t.Errorf("a payload that is not known here is written as %s, %v", got, err)
	}
	large := &a2a.Message{ID: "m", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(strings.Repeat("<", MaxText-1) + "\n")}}
	if _, _, got, err := EncodePayload(large); err != nil || len(got) > MaxText+100 {
		t.Errorf("a text of %d bytes is written in %d, %v", MaxText, len(got), err)
	}
}
