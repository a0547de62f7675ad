package transport

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// numbers maps JSON numbers to their decoded values.
var numbers = map[string]any{
	"0": 0.0, "7": 7.0, "-7": -7.0, "0.0": 0.0, "1.0": 1.0, "1.50": 1.5, "0.1": 0.1, "-0.1": -0.1, "1e3": 1e3, "1E+3": 1e3, "100e-2": 1.0,
	"0e999999999999999999999": 0.0, "0.000000000000000000000000e-7": 0.0, "1000000000000000000000000": 1e24, "0.000001e6": 1.0,
	"123456789012345": 123456789012345.0, "9007199254740992": 9007199254740992.0, "9007199254740994": 9007199254740994.0,
	"9007199254740993": json.Number("9007199254740993"), "-9007199254740993": json.Number("-9007199254740993"),
	"9007199254740993.0": json.Number("9007199254740993.0"), "9.007199254740993e15": json.Number("9.007199254740993e15"),
	"9223372036854775807": json.Number("9223372036854775807"), "18446744073709551615": json.Number("18446744073709551615"),
	"0.1000000000000000055511151231257827": json.Number("0.1000000000000000055511151231257827"),
	"3.14159265358979323846":               json.Number("3.14159265358979323846"),
	"1e-400":                               json.Number("1e-400"), "-1e-99999999999999999999": json.Number("-1e-99999999999999999999"),
}

// TestNumbersTooLarge encodes values that are JSON already, with numbers that nobody could read: the sender is told which one, rather than the receiver
// that something cannot be read.
func TestNumbersTooLarge(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string // "" is none
	}{
		{json.RawMessage(`{"x":[1, -1e999]}`), "1e999"},
		{map[string]any{"x": json.Number("1E400")}, "1E400"},
		{[]any{json.RawMessage("1" + strings.Repeat("0", 309))}, "1000"},
		{json.RawMessage(`{"1e999":"1e999\\","\"":"1e999","x":1e308}`), ""},
		{json.RawMessage(`[1e-999,0e999,123456789012345678901234567890]`), ""},
	} {
		m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewDataPart(test.value))
		_, _, body, err := EncodePayload(m)
		if test.want != "" {
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "the number "+test.want) {
				t.Errorf("EncodePayload with %s = %v, want ErrInvalid and the number", test.value, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("EncodePayload with %s = %v", test.value, err)
		} else if _, err := DecodePayload("message", PayloadVersion, body); err != nil {
			t.Errorf("DecodePayload(%s) = %v", body, err)
		}
	}
}

// TestNumbers decodes numbers everywhere in a payload, by both implementations, and encodes them unchanged.
func TestNumbers(t *testing.T) {
	for text, want := range numbers {
		for _, c := range []struct{ kind, body string }{
			{"message", `{"messageId":"m","metadata":{"k":[%s]},"parts":[{"text":"9007199254740993"},{"data":{"id":%[1]s},"metadata":{"k":%[1]s}}],"role":"ROLE_USER"}`},
			{"message", `{"messageId":"m","parts":[{"data":%s}],"role":"ROLE_USER"}`},
			{"task", `{"id":"t","artifacts":[{"artifactId":"a","metadata":{"k":%s},"parts":[{"data":[%[1]s]}]}],"contextId":"c","history":[{"messageId":"m","metadata":{"k":%[1]s},"parts":[],"role":"ROLE_USER"}],"metadata":{"k":%[1]s},"status":{"message":{"messageId":"m","parts":[{"data":{"a":{"b":%[1]s}}}],"role":"ROLE_AGENT"},"state":"TASK_STATE_COMPLETED"}}`},
			{"status-update", `{"contextId":"c","status":{"message":{"messageId":"m","parts":[{"data":%s}],"role":"ROLE_AGENT"},"state":"TASK_STATE_WORKING"},"taskId":"t","metadata":{"k":%[1]s}}`},
			{"artifact-update", `{"artifact":{"artifactId":"a","parts":[{"data":%s}]},"contextId":"c","taskId":"t","metadata":{"k":%[1]s}}`},
		} {
			body := fmt.Sprintf(c.body, text)
			odd := strings.Replace(body, "{", `{"strange":[9007199254740993,"\"9007199254740993"],`, 1)
			if !sameRead(t, c.kind, []byte(body)) || sameRead(t, c.kind, []byte(odd)) {
				t.Errorf("not plain, or plain with a strange name: %s", body)
			}
			var read [2]Payload
			for i, body := range []string{body, odd} {
				p, err := DecodePayload(c.kind, PayloadVersion, []byte(body))
				if err != nil {
					t.Fatalf("DecodePayload(%s) = %v", body, err)
				}
				seen := 0
				replaceIn(p, func(v any) any {
					if seen++; !reflect.DeepEqual(v, want) {
						t.Errorf("%s in %s is read as %#v, want %#v", text, body, v, want)
					}
					return v
				})
				if seen != strings.Count(c.body, "%") {
					t.Errorf("%d values are in what was read of %s", seen, body)
				}
				read[i] = p
			}
			if !reflect.DeepEqual(read[0], read[1]) {
				t.Errorf("%s is read as %#v, and %#v with a strange name", body, read[0], read[1])
			}
			if _, isNumber := want.(json.Number); isNumber {
				if _, _, b, err := EncodePayload(read[0]); err != nil || string(b) != body {
					t.Errorf("%s is written as %s, %v", body, b, err)
				}
			}
		}
	}
}

func TestDecodeValue(t *testing.T) {
	deep := strings.Repeat("[", maxPlain+1) + "9007199254740993" + strings.Repeat("]", maxPlain+1) // not plain
	for text, want := range map[string]string{
		` {"id": 9007199254740993, "n": 1.0, "s": "9007199254740993", "no": null} `: `{"id":9007199254740993,"n":1,"no":null,"s":"9007199254740993"}`,
		"null": "null", "-0": "-0", deep: deep,
		"{\"\xff\":[1e2,9007199254740993]}": `{"` + "\ufffd" + `":[100,9007199254740993]}`,
		"1e999":                             "", "01": "", "[1] 2": "", "": "", "x": "", // "": an error
	} {
		v, err := DecodeValue([]byte(text))
		if want == "" {
			if err == nil {
				t.Errorf("DecodeValue(%q) = %#v, want an error", text, v)
			}
			continue
		}
		if b, werr := json.Marshal(v); err != nil || werr != nil || string(b) != want {
			t.Errorf("DecodeValue(%q) = %s, %v, %v, want %s", text, b, err, werr, want)
		}
	}
}

func TestFloat(t *testing.T) {
	for _, c := range []struct {
		v    any
		want float64
		ok   bool
	}{
		{2.5, 2.5, true},
		{3, 3, true},
		{json.Number("1.00000000000000000001"), 1, true},
		{json.Number("x"), 0, false},
		{"1", 0, false},
		{nil, 0, false},
	} {
		if got, ok := Float(c.v); got != c.want || ok != c.ok {
			t.Errorf("Float(%#v) = %v, %v, want %v, %v", c.v, got, ok, c.want, c.ok)
		}
	}
}

// FuzzNumber checks that no number changes.
func FuzzNumber(f *testing.F) {
	for text := range numbers {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var std float64
		if json.Unmarshal([]byte(text), &std) != nil || strings.TrimSpace(text) != text || text == "null" {
			return
		}
		v, err := DecodeValue([]byte(text))
		if err != nil {
			t.Fatalf("DecodeValue(%s) = %v, encoding/json reads %v", text, err, std)
		}
		if got, ok := Float(v); !ok || got != std {
			t.Errorf("%s is %v as a float64, encoding/json reads %v", text, got, std)
		}
		_, _, b, err := EncodePayload(&a2a.Message{Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewDataPart(v)}})
		if err != nil {
			t.Fatalf("EncodePayload of %s: %v", text, err)
		}
		p, err := DecodePayload("message", PayloadVersion, b)
		if err != nil || !reflect.DeepEqual(p.(*a2a.Message).Parts[0].Data(), v) {
			t.Fatalf("%s is %#v, and %s, %v after the way", text, v, b, err)
		}
		if i := strings.IndexAny(text, "eE"); i >= 0 && len(text)-i > 5 {
			return // too expensive to compute
		}
		written, _ := json.Marshal(v)
		was, ok := new(big.Rat).SetString(text)
		is, ok2 := new(big.Rat).SetString(string(written))
		if !ok || !ok2 || was.Cmp(is) != 0 {
			t.Errorf("%s has become %s", text, written)
		}
	})
}
