package llmtest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
)

// awkward is a key that looks different in every encoding.
const awkward = `sk-suite/0123+456"789\abc<def>&ghi?jklmnop=`

// formsOf returns the readable encodings of a key.
func formsOf(key string) []string {
	quoted, _ := json.Marshal(key)
	forms := []string{
		key, url.QueryEscape(key), url.PathEscape(key), html.EscapeString(key),
		strings.Trim(string(quoted), `"`), strings.Trim(strconv.Quote(key), `"`),
	}
	for _, text := range []string{key, ":" + key} { // also as a password without a user name
		forms = append(forms, base64.RawStdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text)))
	}
	return forms
}

// wantHidden checks that a text does not show a key.
func (e *env) wantHidden(what, text string) {
	e.Helper()
	for _, form := range append(formsOf(key), formsOf(awkward)...) {
		if strings.Contains(text, form) {
			e.Errorf("%s shows the key as %s: %s", what, form, brief(text))
			return
		}
	}
}

// wantNoKey checks that no error in err's tree shows the key, in any format.
func (e *env) wantNoKey(err error) {
	e.Helper()
	texts := []string{fmt.Sprintf("%v", err), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)}
	if failed, ok := errors.AsType[*llm.Error](err); ok {
		texts = append(texts, fmt.Sprintf("%+v", *failed))
	}
	for _, text := range texts {
		e.wantHidden(fmt.Sprintf("a %T", err), text)
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		if inner := err.Unwrap(); inner != nil {
			e.wantNoKey(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range err.Unwrap() {
			e.wantNoKey(inner)
		}
	}
}

// echo makes a server repeat the key, and checks the error.
func echo(name string, feature Feature, reply func(*Call) *Reply) testCase {
	return echoOf(key, name, feature, reply)
}

func echoOf(key, name string, feature Feature, reply func(*Call) *Reply) testCase {
	needs := []Feature{NoKey}
	if feature != "" {
		needs = append(needs, feature)
	}
	return testCase{name: name, needs: needs, run: func(e *env) {
		c := e.wire.Dial(e.T, reply, Options{Key: key})
		a := e.ask(c, request("hi"))
		if a.err == nil {
			e.Fatalf("Generate = %q, want an error", a.text())
		}
		e.wantNoKey(a.err)
	}}
}

// repeated is a typical message of endpoints about a key.
const repeated = "Incorrect API key provided: {key}. You can find yours in your account. Authorization: Bearer {key}"

// encoded makes a server repeat the key in another encoding.
func encoded(name string, form func(key string) string) testCase {
	return echoOf(awkward, name, "", func(c *Call) *Reply {
		return &Reply{Error: &Fault{Status: 401, Message: "Incorrect API key provided: " + form(c.Key) + "."}}
	})
}

var secretCases = []testCase{
	echo("not accepted", "", func(*Call) *Reply { return &Reply{Error: &Fault{Status: 401, Message: repeated}} }),
	echo("bad request", "", func(*Call) *Reply { return &Reply{Error: &Fault{Status: 400, Message: repeated}} }),
	echo("server error", "", func(*Call) *Reply { return &Reply{Error: &Fault{Status: 500, Message: repeated}} }),
	echo("after pieces", "", func(*Call) *Reply {
		return &Reply{Pieces: []string{"Once"}, Error: &Fault{Status: 503, Message: repeated}}
	}),
	echo("page", NoGarbage, func(c *Call) *Reply { return &Reply{Garbage: "<html>Welcome, " + c.Key + "</html>"} }),
	echo("frame", NoGarbage, func(c *Call) *Reply { return &Reply{Garbage: "data: {\"a\":" + c.Key + "\n\n"} }),
	echo("refused", NoRefusal, func(c *Call) *Reply {
		return &Reply{Pieces: []string{"I do not like ", c.Key}, Finish: Refused}
	}),
	encoded("awkward", func(key string) string { return key }),
	encoded("in a URL", url.QueryEscape),
	encoded("in a path", url.PathEscape),
	encoded("in JSON", func(key string) string { quoted, _ := json.Marshal(key); return string(quoted) }),
	encoded("in HTML", html.EscapeString),
	encoded("in base64", func(key string) string { return base64.StdEncoding.EncodeToString([]byte(key)) }),
	encoded("as a password", func(key string) string { return base64.StdEncoding.EncodeToString([]byte(":" + key)) }),
	{name: "redirected", needs: []Feature{NoKey, NoRetryAfter}, run: redirected},
	{name: "logged", needs: []Feature{NoKey}, run: logged},
}

// redirected makes the endpoint redirect the client to another server, which must not receive the key.
func redirected(e *env) {
	got := make(chan string, 100)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dump, _ := httputil.DumpRequest(r, true)
		select {
		case got <- string(dump):
		default: // a client that retries forever
		}
		http.NotFound(w, r)
	}))
	e.Cleanup(other.Close)
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		c, _ := e.serve(&Reply{Error: &Fault{Status: status, Location: other.URL + "/"}})
		if a := e.ask(c, request("hi")); a.err == nil {
			e.Errorf("status %d: Generate = %q, want an error", status, a.text())
		}
	}
	for len(got) > 0 {
		e.wantHidden("what another server gets", <-got)
	}
}

// logged makes calls of all kinds and checks all logs for the key: a client has no logger of its own.
func logged(e *env) {
	file, err := os.Create(filepath.Join(e.TempDir(), "log"))
	if err != nil {
		e.Fatal(err)
	}
	stderr, logger, out, flags := os.Stderr, slog.Default(), log.Writer(), log.Flags()
	defer func() {
		os.Stderr = stderr
		slog.SetDefault(logger)
		log.SetOutput(out)
		log.SetFlags(flags)
		_ = file.Close()
	}()
	os.Stderr = file
	slog.SetDefault(slog.New(slog.NewTextHandler(file, &slog.HandlerOptions{Level: slog.LevelDebug})))
	log.SetOutput(file)

	c, s := e.serve(&Reply{})
	for _, reply := range []*Reply{
		{Pieces: []string{"Hel", "lo."}},
		{},
		{Pieces: []string{"Once"}, Cut: true},
		{Pieces: []string{"Once"}, Error: &Fault{Status: 503, Message: repeated}},
		{Error: &Fault{Status: 401, Message: repeated}},
	} {
		s.say(reply)
		e.ask(c, request("hi"))
		s.call()
	}
	s.say(&Reply{Pieces: []string{"Once ", "upon"}, Hold: e.over})
	canceledInStream(e, c, s)
	text, err := os.ReadFile(file.Name())
	if err != nil {
		e.Fatal(err)
	}
	e.wantHidden("the log", string(text))
}
