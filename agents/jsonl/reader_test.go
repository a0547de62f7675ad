package jsonl_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agents/jsonl"
)

func TestReader(t *testing.T) {
	for name, test := range map[string]struct {
		in   string
		want []string // the lines as type:id:text, and the error that ends them
	}{
		"lines":          {`{"type":"progress","id":"a","text":"1"}` + "\r\n\n  \n" + `{"type":"result"}`, []string{"progress:a:1", "result::", "EOF"}},
		"unknown fields": {`{"type":"result","id":"a","text":"x","mood":{"good":[true]}}`, []string{"result:a:x", "EOF"}},
		"null":           {`{"type":"result","id":"a","text":null,"data":null}`, []string{"result:a:", "EOF"}},
		"words":          {"Listening on port 80\n", []string{`a line is not of the protocol jsonl: it is no JSON object: "Listening on port 80"`}},
		"a list":         {"[1]\n", []string{`a line is not of the protocol jsonl: it is no JSON object: "[1]"`}},
		"nothing":        {"null\n", []string{`a line is not of the protocol jsonl: it is no JSON object: "null"`}},
		"no type":        {`{"id":"a"}`, []string{`[a] a line is not of the protocol jsonl: it has no type: "{\"id\":\"a\"}"`}},
		"a type":         {`{"type":"dance","id":"a"}`, []string{`[a] a line is not of the protocol jsonl: there is no type "dance": "{\"type\":\"dance\",\"id\":\"a\"}"`}},
		"a number":       {`{"type":"text","id":"a","text":5}`, []string{`[a] a line is not of the protocol jsonl: text cannot be a number: "{\"type\":\"text\",\"id\":\"a\",\"text\":5}"`}},
		"no text":        {`{"type":"text","id":"a"}`, []string{`[a] a line is not of the protocol jsonl: it has no text: "{\"type\":\"text\",\"id\":\"a\"}"`}},
		"half a line":    {`{"type":"result","id":"a"`, []string{"unexpected EOF"}},
		"half of words":  {`Listening on`, []string{`a line is not of the protocol jsonl: it is no JSON object: "Listening on"`}},
		"a bad line":     {`{"type":"result","id":"a"` + "\n", []string{`a line is not of the protocol jsonl: it is no JSON object: "{\"type\":\"result\",\"id\":\"a\""`}},
		"the longest":    {`{"type":"text","text":"` + strings.Repeat("x", jsonl.MaxLine-25) + "\"}\n", []string{"text::" + strings.Repeat("x", jsonl.MaxLine-25), "EOF"}},
		"too long": {
			`{"type":"text","text":"` + strings.Repeat("é", jsonl.MaxLine) + "\"}\n",
			[]string{`a line is not of the protocol jsonl: the line has more than 1048576 bytes: "{\"type\":\"text\",\"text\":\"` + strings.Repeat("é", 48) + `…"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, read(jsonl.NewReader(strings.NewReader(test.in)))); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if got := read(jsonl.NewReader(iotest.OneByteReader(strings.NewReader(test.in)))); !cmp.Equal(got, test.want) {
				t.Errorf("byte by byte: %q", got)
			}
		})
	}
}

// read returns the lines of r and the error that ends them.
func read(r *jsonl.Reader) (all []string) {
	for {
		l, _, err := r.Read()
		var bad *jsonl.BadLine
		switch {
		case errors.As(err, &bad) && bad.ID != "":
			return append(all, "["+bad.ID+"] "+err.Error())
		case err != nil:
			return append(all, err.Error())
		}
		all = append(all, l.Type+":"+l.ID+":"+l.Words())
	}
}

// A line that is too long is the failure of its task if it begins with its id, and the lines behind it are read; one that never ends is bounded.
func TestLongLine(t *testing.T) {
	long := strings.Repeat("x", 2*jsonl.MaxLine)
	next := "\n" + `{"type":"result","id":"b","text":"next"}` + "\n"
	for begin, id := range map[string]string{
		`{"type":"text","id":"a","text":"`:        "a",
		`{"data":{"id":"x"},"id":"a","text":"`:    "a",
		`{"type":"text","text":"`:                 "",
		`{"type":"text","data":{"id":"a","b":"`:   "",
		`["id","a","`:                             "",
		`{"type":"text","id":5,"id":"a","text":"`: "",
	} {
		r := jsonl.NewReader(strings.NewReader(begin + long + `"}` + next))
		_, _, err := r.Read()
		if bad := new(jsonl.BadLine); !errors.As(err, &bad) || bad.ID != id {
			t.Errorf("%s: %v, want a bad line of %q", begin, err, id)
		}
		if l, _, err := r.Read(); err != nil || l.Words() != "next" {
			t.Errorf("%s: the line behind it: %+v, %v", begin, l, err)
		}
	}
	endless := jsonl.NewReader(io.MultiReader(strings.NewReader(`{"id":"a","text":"`), zeros{}))
	_, _, err := endless.Read()
	bad := new(jsonl.BadLine)
	if !errors.As(err, &bad) || bad.ID != "a" {
		t.Errorf("endless: %v", err)
	}
	if _, _, err = endless.Read(); !errors.As(err, &bad) || bad.ID != "" {
		t.Errorf("its rest: %v", err)
	}
}

// zeros is a line that never ends.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '0'
	}
	return len(b), nil
}

func TestLines(t *testing.T) {
	for in, want := range map[string]string{
		`{"type":"artifact","name":"a","text":""}`:              "",
		`{"type":"artifact","name":"a","data":0}`:               "",
		`{"type":"artifact","name":"a"}`:                        "it has no text or data",
		`{"type":"artifact","text":"a"}`:                        "it has no name",
		`{"type":"artifact","name":"a","data":0,"append":true}`: "it has no text, since only text can be appended",
		`{"type":"file"}`:                                       "it has no path",
		`{"type":"ask","text":"a"}`:                             "it has no ask, which the reply will have",
		`{"type":"ask","ask":"1"}`:                              "it has no text",
		`{"type":"ask","ask":"1","agent":"a","input":{}}`:       "",
		`{"type":"rejected"}`:                                   "it has no text",
		`{"type":"error"}`:                                      "it has no text",
		`{"type":"input_required","text":"?"}`:                  "",
		`{"type":"input_required","text":"?","state":"` + strings.Repeat("x", jsonl.MaxState-2) + `"}`: "",
		`{"type":"input_required","text":"?","state":"` + strings.Repeat("x", jsonl.MaxState-1) + `"}`: "its state has more than 262144 bytes",
	} {
		_, err := jsonl.Parse([]byte(in))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("Parse(%.60s): %q, want %q", in, got, want)
		}
	}
}

// FuzzReader holds that the reader ends, keeps its bounds, and returns lines that are whole, whatever a program writes.
func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"type":"text","id":"a","text":"x"}` + "\n\n" + `{"type":"result"}`))
	f.Add([]byte(`{"type":"input_required","text":"?","state":{"a":[1,null]}}`))
	f.Add([]byte("{\"type\":\"text\",\"text\":5}\n\xff\xfe\n"))
	f.Add(bytes.Repeat([]byte("["), 20_000))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := jsonl.NewReader(bytes.NewReader(b))
		for n := 0; ; n++ {
			l, size, err := r.Read()
			var bad *jsonl.BadLine
			switch {
			case errors.As(err, &bad):
				if len(bad.Begin) > 200 || bad.Err == nil {
					t.Errorf("a bad line: %+v", bad)
				}
				return
			case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
				return
			case err != nil:
				t.Fatalf("line %d: %v", n, err)
			case size > jsonl.MaxLine+1 || l.Type == "" || n > len(b):
				t.Fatalf("line %d of %d bytes: %+v", n, size, l)
			}
		}
	})
}
