package agentcard_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
)

const search = `{"type":"object","properties":{
	"query":{"type":"string","minLength":3,"pattern":"^[a-z ]+$"},
	"category":{"enum":["book","toy",null,7]},
	"price_min":{"type":"number","minimum":0,"exclusiveMaximum":100,"multipleOf":0.01},
	"ids":{"type":"array","items":{"type":["string","integer"]},"minItems":2,"maxItems":3,"uniqueItems":true},
	"sort":{"oneOf":[{"type":"string"},{"type":"array"}]},
	"where":{"anyOf":[{"type":"object","required":["city"]},{"type":"object","properties":{"lat":{"type":"number"}},"required":["lat"]}]},
	"fixed":{"const":"a<b"},
	"a/b~c":{"type":"null"},
	"when":{"type":"string","format":"date-time"},
	"no":false,
	"map":{"type":"object","additionalProperties":false,"propertyNames":{"maxLength":4},"patternProperties":{"^x":{}},"minProperties":1,"maxProperties":2},
	"dep":{"dependentRequired":{"card":["street"]},"not":{"required":["cash"]}},
	"has":{"contains":{"type":"boolean"}},
	"twice":{"allOf":[{"type":"string"},{"type":"string"}]},
	"long":{"const":"0123456789012345678901234567890123456789é"}
},"required":["query"]}`

func TestValidate(t *testing.T) {
	s, err := agentcard.Compile(json.RawMessage(search))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ value, want string }{
		{`{"query":"red shoes"}`, ""},
		{`{"query":"abc","when":"yesterday","ids":["a",1.0],"price_min":0.07,"category":7.0}`, ""}, // formats are not checked
		{`{}`, "/query is missing"},
		{`[]`, "the value must be an object, not an array"},
		{`null`, "the value must be an object, not null"},
		{`{"query":7}`, "/query must be a string, not a number"},
		{`{"query":"ab"}`, "/query must have at least 3 characters, not 2"},
		{`{"query":"ABC"}`, `/query must match the pattern "^[a-z ]+$"`},
		{`{"query":"abc","category":"car"}`, `/category must be one of "book", "toy", null, 7, not "car"`},
		{`{"query":"abc","category":{"a":1}}`, `/category must be one of "book", "toy", null, 7, not such an object`},
		{`{"query":"abc","price_min":"5"}`, "/price_min must be a number, not a string"},
		{`{"query":"abc","price_min":-0.5}`, "/price_min must be at least 0, not -0.5"},
		{`{"query":"abc","price_min":100}`, "/price_min must be under 100, not 100"},
		{`{"query":"abc","price_min":0.005}`, "/price_min must be a multiple of 0.01, not 0.005"},
		{`{"query":"abc","ids":["a"]}`, "/ids must have at least 2 items, not 1"},
		{`{"query":"abc","ids":["a","a"]}`, "/ids has equal items, at 0 and 1"},
		{`{"query":"abc","ids":["a","b","c",2]}`, "/ids must have at most 3 items, not 4"},
		{`{"query":"abc","ids":["a",1.5]}`, "/ids/1 must be an integer or a string, not a number"},
		{`{"query":"abc","sort":true}`, "/sort must be a string or an array, not true or false"},
		{`{"query":"abc","where":{"lat":"x"}}`, "/where has none of the forms that it may have: for one of them /where/city is missing"},
		{`{"query":"abc","fixed":"b"}`, `/fixed must be "a<b", not "b"`},
		{`{"query":"abc","a/b~c":1}`, "/a~1b~0c must be null, not a number"},
		{`{"query":"abc","no":1}`, "/no is not allowed there"},
		{`{"query":"abc","map":{}}`, "/map must have at least 1 fields, not 0"},
		{`{"query":"abc","map":{"x":1,"y":2}}`, "/map/y is not allowed there"},
		{`{"query":"abc","map":{"xlong":1}}`, `the value has a field whose name is not allowed: "xlong"`},
		{`{"query":"abc","dep":{"card":1}}`, `/dep/street is missing; it is needed beside "card"`},
		{`{"query":"abc","dep":{"cash":1}}`, "/dep has a form that it must not have"},
		{`{"query":"abc","has":[1]}`, "/has has too few items of a form that it must contain"},
		{`{"query":"abc","twice":1}`, "/twice must be a string, not a number"},
		{`{"query":"abc","long":"x"}`, `/long must be "0123456789012345678901234567890123456789…", not "x"`},
		{`{"query":1,"price_min":"5","ids":1,"no":1,"fixed":1}`, `/fixed must be "a<b", not 1; /ids must be an array, not a number; /no is not allowed there; and 2 more`},
		{``, "the value is not JSON: it is empty"},
		{`{"query":"abc"} x`, "the value is not JSON: there is more after it"},
		{`{"query":1e999}`, "the value is not JSON: json: cannot unmarshal number 1e999 into Go value of type float64"},
		{strings.Repeat("[", 101) + strings.Repeat("]", 101), "the value is nested too deep: at most 100 levels are allowed"},
		{`"` + strings.Repeat("x", 1<<20) + `"`, "the value is 1048578 bytes long, at most 1048576 are allowed"},
	}
	for _, tt := range tests {
		got := ""
		if err := s.Validate(json.RawMessage(tt.value)); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("Validate(%.80s) = %q, want %q", tt.value, got, tt.want)
		}
	}
}

// TestValidateErrorIsOneLine checks that no schema or value makes the error long, or breaks its line.
func TestValidateErrorIsOneLine(t *testing.T) {
	long := strings.Repeat("long\nname\x1b[31m\u202e", 100)
	q, _ := json.Marshal(long)
	s, err := agentcard.Compile(json.RawMessage(fmt.Sprintf(`{"additionalProperties":false,"required":[%s],"properties":{"a":{"enum":[%s,"b"]},"b":{"const":%s}}}`, q, q, q)))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{fmt.Sprintf(`{%s:1,"a":"x\ny","b":1,"c\n":2}`, q), fmt.Sprintf(`{"a":"x","b":%s}`, q), `{"a":1}`} {
		err := s.Validate(json.RawMessage(v))
		if err == nil {
			t.Fatalf("Validate(%.60s) = nil, want an error", v)
		}
		if text := err.Error(); len(text) > 300 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("Validate(%.60s) = %d bytes: %q", v, len(text), text)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	tests := []struct{ schema, want string }{
		{``, "the schema is not JSON: it is empty"},
		{`{"type":`, "the schema is not JSON: unexpected EOF"},
		{`{} {}`, "the schema is not JSON: there is more after it"},
		{`"string"`, "a schema is a group of fields, not a string"},
		{`null`, "a schema is a group of fields, not null"},
		{`{"type":"text"}`, `the schema is not valid: /type has none of the forms that it may have: for one of them it must be one of "array", "boolean", "integer", "null", "number", "object", "string", not "text"`},
		{`{"properties":{"a":{"minimum":"5"}}}`, "the schema is not valid: /properties/a/minimum must be a number, not a string"},
		{`{"properties":{"a":{"pattern":"(?=x)"}}}`, "the schema is not valid: /properties/a/pattern is not a valid regex: error parsing regexp: invalid or unsupported Perl syntax: `(?=`"},
		{`{"pattern":"x{1000}x{1000}x{1000}x{1000}x{97}"}`, "the schema is not valid: /pattern is not a valid regex: the pattern is too large: use fewer or smaller repetitions"},
		{`{"properties":{"a":{"patternProperties":{"^\\pL{990}\\pL{990}\\pL{990}\\pL{990}\\pL{990}":{}}}}}`, `the schema is not valid: it has a field whose name is not allowed: "^\\pL{990}\\pL{990}\\pL{990}\\pL{990}\\pL{990…" is not a valid regex: the pattern is too large`},
		{`{"pattern":"` + strings.Repeat(`\\pL`, 50) + `"}`, "the schema is not valid: /pattern is not a valid regex: the pattern is too large: make it shorter, with fewer named classes"},
		{`{"pattern":"(?i)` + strings.Repeat("[B-\U0001E942]", 10) + `"}`, "the schema is not valid: /pattern is not a valid regex: the pattern is too large: make it shorter, with"},
		{`{"pattern":"(a{1000}b{1000}){2}c{1000}"}`, "the schema is not valid: /pattern is not a valid regex: "},
		{`{"pattern":"a{1000}b{1000}c{1000}d{1000}e{1000}"}`, "the schema is not valid: /pattern is not a valid regex: the pattern is too large"},
		{`{"required":"a"}`, "the schema is not valid: /required must be an array, not a string"},
		{strings.Repeat(`{"not":`, 65) + `{}` + strings.Repeat(`}`, 65), "the schema is nested too deep: at most 64 levels are allowed"},
		{`{"title":"` + strings.Repeat("x", 16<<10) + `"}`, "the schema is 16396 bytes long, at most 16384 are allowed"},
	}
	for _, tt := range tests {
		for range 2 { // the second time from the cache
			_, err := agentcard.Compile(json.RawMessage(tt.schema))
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || len(err.Error()) > 300 {
				t.Errorf("Compile(%.60s) = %v, want %s", tt.schema, err, tt.want)
			}
		}
	}
}

func TestReferences(t *testing.T) {
	tests := []struct {
		name, schema string
		fits, not    string
		unresolved   []string
	}{
		{"nowhere", `{"items":{"$ref":"#/defs/ProductSummary"}}`, `[1]`, ``, []string{"#/defs/ProductSummary"}},
		{"rules beside it hold", `{"items":{"$ref":"#/defs/P","type":"string"}}`, `["a"]`, `[1]`, []string{"#/defs/P"}},
		{"in an unknown keyword", `{"items":{"$ref":"#/defs/P"},"defs":{"P":{"type":"string"}}}`, `["a"]`, `[1]`, nil},
		{"to what is no schema", `{"$ref":"#/title","title":"x"}`, `1`, ``, []string{"#/title"}},
		{"remote", `{"$ref":"https://example.com/s.json","$schema":"https://example.com/draft","type":"string"}`, `"a"`, `1`, []string{"https://example.com/s.json"}},
		{"a file", `{"properties":{"a":{"$ref":"file:///etc/passwd"},"b":{"$ref":"../x.json#/a"}}}`, `{"a":1,"b":1}`, ``, []string{"file:///etc/passwd", "../x.json#/a"}},
		{"escaped", `{"$ref":"#/$defs/a~1b%25","$defs":{"a/b%":{"type":"string"}}}`, `"a"`, `1`, nil},
		{"anchor", `{"$ref":"#here","$defs":{"x":{"$anchor":"here","type":"string"}}}`, `"a"`, `1`, nil},
		{"no such anchor", `{"$ref":"#there"}`, `1`, ``, []string{"#there"}},
		{"by id", `{"$id":"https://a.example/x/s","$ref":"t#/$defs/n","$defs":{"q":{"$id":"t","$defs":{"n":{"$ref":"#/$defs/m"},"m":{"type":"string"}}}}}`, `"a"`, `1`, nil},
		{"to itself by its id", `{"$id":"https://a.example/s","properties":{"a":{"$ref":"https://a.example/s"}},"type":"object"}`, `{"a":{}}`, `{"a":1}`, nil},
		{"id that is only a name", `{"type":"object","id":"product","properties":{"id":{"$ref":"#/definitions/n"}},"definitions":{"n":{"id":"n","type":"string"}}}`, `{"id":"a"}`, `{"id":1}`, nil},
		{"draft-04", `{"$schema":"http://json-schema.org/draft-04/schema#","id":"http://a.example/s","properties":{"a":{"$ref":"s#/definitions/n"}},"definitions":{"n":{"type":"number","minimum":1,"exclusiveMinimum":true}}}`, `{"a":2}`, `{"a":1}`, nil},
		{"draft-07", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string","format":"date"}],"additionalItems":false}`, `["x"]`, `["x",1]`, nil},
		{"formats of older drafts", `{"$schema":"http://json-schema.org/draft-07/schema#","additionalProperties":{"format":"date"},"patternProperties":{"^d":{"format":"date"}}}`, `{"d":"x","e":"x"}`, `[`, nil},
		{"dynamic", `{"$dynamicAnchor":"node","type":"object","properties":{"next":{"$dynamicRef":"#node"}}}`, `{"next":{}}`, `{"next":1}`, nil},
		{"two at once", `{"$ref":"#/$defs/a","$dynamicRef":"#b","$defs":{"a":{"type":"string"},"b":{"$anchor":"b","minLength":2}}}`, `"ab"`, `"a"`, nil},
		{"what only looks like one", `{"properties":{"$ref":{"type":"string"},"enum":{"$ref":"#/nope"}},"default":{"$ref":"#/no"},"enum":[{"$ref":"a"}]}`, `{"$ref":"a"}`, `{"$ref":"b"}`, []string{"#/nope"}},
		{"to itself", `{"$ref":"#"}`, ``, `1`, nil},
		{"everything", `true`, `1`, ``, nil},
		{"nothing", `false`, ``, `1`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := agentcard.Compile(json.RawMessage(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.unresolved, s.Unresolved()); diff != "" {
				t.Errorf("Unresolved (-want +got):\n%s", diff)
			}
			if tt.fits != "" {
				if err := s.Validate(json.RawMessage(tt.fits)); err != nil {
					t.Errorf("Validate(%s) = %v", tt.fits, err)
				}
			}
			if tt.not != "" {
				if err := s.Validate(json.RawMessage(tt.not)); err == nil {
					t.Errorf("Validate(%s) = nil, want an error", tt.not)
				}
			}
		})
	}
}

// TestValidateEnds checks that validation with hostile schemas and values is aborted.
func TestValidateEnds(t *testing.T) {
	nest := func(open string, n int, inner, shut string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(shut, n)
	}
	deep := nest(`{"a":`, 99, `1`, `}`)
	numbers := list(3000, func(i int) string { return fmt.Sprint(i) })
	names := list(2000, func(i int) string { return fmt.Sprintf("%q", fmt.Sprint(i)) })
	again := func(n int, rule string) string { // applies the rule 2^n times
		s := `{"$defs":{"0":` + rule
		for i := range n {
			s += fmt.Sprintf(`,"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%d"}]}`, i+1, i, i)
		}
		return s + fmt.Sprintf(`},"$ref":"#/$defs/%d"}`, n)
	}
	tests := []struct{ name, schema, value string }{
		{"all of, twice", `{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`, deep},
		{"any of, failing", `{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}}}`, deep},
		{"patterns, failing unseen", `{"not":{"$ref":"#/$defs/x"},"$defs":{"x":{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},
			"patternProperties":{"^a":{"$ref":"#/$defs/x"},"a$":{"$ref":"#/$defs/x"}}}}}`, deep},
		{"items and contains", `{"items":{"$ref":"#"},"contains":{"$ref":"#"},"prefixItems":[{"$ref":"#"}]}`, nest(`[`, 99, ``, `]`)},
		{"long enumeration", `{"items":{"enum":` + numbers + `}}`, list(300_000, func(int) string { return "-2" })},
		{"large values", `{"allOf":` + list(600, func(int) string { return `{"items":{"enum":[0]}}` }) + `}`, list(70, func(int) string { return numbers })},
		{"many required", `{"items":{"required":` + names + `}}`, list(50_000, func(int) string { return "{}" })},
		{"many rules", `{"allOf":` + list(600, func(int) string { return `{"items":{"type":"null"}}` }) + `}`, list(300_000, func(int) string { return "1" })},
		{"slow pattern", `{"items":{"pattern":"^(a{500}|b{500}|c{500})*$"}}`, list(1000, func(int) string { return `"` + strings.Repeat("a", 1000) + `"` })},
		{"large constant", again(5, `{"items":{"const":[`+numbers+`]}}`), list(70, func(int) string { return "[" + numbers + "]" })},
		{"large items", again(4, `{"uniqueItems":true}`), list(70, func(i int) string { return fmt.Sprintf("[[%d],%s]", i, numbers) })},
		{"few large items", again(4, `{"uniqueItems":true}`), list(20, func(i int) string { return "[" + strings.Repeat("0,", 24_000) + fmt.Sprint(i) + "]" })},
		{"long text", again(10, `{"minLength":1}`), `"` + strings.Repeat("é", 500_000) + `"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := agentcard.Compile(json.RawMessage(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			const want = "the value cannot be checked against its schema: it takes too long"
			if err := s.Validate(json.RawMessage(tt.value)); err == nil || err.Error() != want {
				t.Errorf("Validate = %v, want %s", err, want)
			}
			// The schema still works for other values.
			if err := s.Validate(json.RawMessage(`[]`)); err != nil && err.Error() == want {
				t.Errorf("Validate([]) = %v", err)
			}
		})
	}
}

func TestValidateOfWhatIsAllWrong(t *testing.T) {
	s, err := agentcard.Compile(json.RawMessage(`{"items":{"type":"string"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{
		1000:   "/0 must be a string, not a number; /1 must be a string, not a number; /10 must be a string, not a number; and 997 more",
		60_000: "the value does not fit its schema: there is too much wrong with it to say what",
	} {
		if err := s.Validate(json.RawMessage(list(n, func(int) string { return "1" }))); err == nil || err.Error() != want {
			t.Errorf("Validate of %d numbers = %v, want %s", n, err, want)
		}
	}
}

// TestValidateIsPatient checks that large but harmless values are validated.
func TestValidateIsPatient(t *testing.T) {
	s, err := agentcard.Compile(json.RawMessage(`{"type":"array","items":{"type":"object","required":["id"],"properties":{
		"id":{"type":"integer"},"name":{"type":"string","pattern":"^[a-z0-9]+$"},"kind":{"enum":["a","b"]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	rows := list(10_000, func(i int) string { return fmt.Sprintf(`{"id":%d,"name":"n%d","kind":"a"}`, i, i) })
	if err := s.Validate(json.RawMessage(rows)); err != nil {
		t.Errorf("Validate of 10,000 rows = %v", err)
	}
	unique, err := agentcard.Compile(json.RawMessage(`{"uniqueItems":true,"items":{"type":"array"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := unique.Validate(json.RawMessage(list(20, func(i int) string { return fmt.Sprintf("[%d,%s]", i, strings.Repeat("0.12345,", 1536)+"1") }))); err != nil {
		t.Errorf("Validate of 20 long lists = %v", err)
	}
	forms, err := agentcard.Compile(json.RawMessage(`{"anyOf":` + strings.TrimSuffix(list(30, func(i int) string { return fmt.Sprintf(`{"const":"none %d"}`, i) }), "]") + `,{"type":"object"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := forms.Validate(json.RawMessage(`{"a":"` + strings.Repeat("x", 900_000) + `"}`)); err != nil {
		t.Errorf("Validate of what may be a word as well = %v", err)
	}
	long := `[{"id":1,"name":"` + strings.Repeat("x", 900_000) + `"}]`
	if err := s.Validate(json.RawMessage(long)); err != nil {
		t.Errorf("Validate of 900,000 letters = %v", err)
	}
}

// list returns a JSON list of n items.
func list(n int, item func(int) string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = item(i)
	}
	return "[" + strings.Join(items, ",") + "]"
}

func TestSchemaIsSafe(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				// Over 1,000 schemas, so that the cache drops some.
				s, err := agentcard.Compile(json.RawMessage(fmt.Sprintf(`{"type":"integer","minimum":%d}`, i/2*300+j)))
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Validate(json.RawMessage(`-1`)); err == nil {
					t.Error("Validate(-1) = nil, want an error")
				}
			}
		})
	}
	wg.Wait()
}

func FuzzSchema(f *testing.F) {
	f.Add(search, `{"query":"abc","ids":[1,2]}`)
	for _, s := range []string{
		`{"$ref":"#"}`, `{"$dynamicRef":"#a","$dynamicAnchor":"a"}`, `{"$id":"a","$defs":{"x":{"$id":"b","$ref":"a#/$defs/x"}}}`, `true`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","id":"x","dependencies":{"a":["b"],"c":{}}}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveRef":"#","$recursiveAnchor":true,"unevaluatedItems":false}`,
		`{"minLength":1e300,"maxItems":-1,"multipleOf":0}`, `{"if":{"const":1},"then":false,"else":{"$ref":"#/then"}}`,
		`{"contentMediaType":"application/json","contentSchema":{"type":"object"},"format":"regex","pattern":"(?i)[a-z]{0,3}"}`,
	} {
		f.Add(s, `{"a":[1,"x",null,{"b":{}}],"c":1.5}`)
	}
	f.Fuzz(func(t *testing.T, schema, value string) {
		s, err := agentcard.Compile(json.RawMessage(schema))
		if err == nil {
			err = s.Validate(json.RawMessage(value))
		}
		if err == nil {
			return
		}
		if text := err.Error(); text == "" || len(text) > 300 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("schema %q, value %q: %q, want one short line", schema, value, text)
		}
	})
}
