package mirror

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestCleanJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"b"}`:                  `{"a":"b"}`,
		`"\u0041 \\u0000"`:           `"\u0041 \\u0000"`,
		`"\u0000"`:                   `"\ufffd"`,
		`"\\\u0000\u0000x"`:          `"\\\ufffd\ufffdx"`,
		`"\ud83d\ude00 \uD83D"`:      `"\ud83d\ude00 \ufffd"`,
		`"\ude00\ud83d\ud83d\ude00"`: `"\ufffd\ufffd\ud83d\ude00"`,
		`"\ud83`:                     `"\ud83`,
		"\"\xff\x00\"":               "\"\uFFFD\uFFFD\"",
		`"\`:                         `"\`,
		``:                           ``,
	} {
		got, mangled := cleanJSON([]byte(in))
		if string(got) != want || mangled != (in != want) {
			t.Errorf("cleanJSON(%q) = %q, %t, want %q", in, got, mangled, want)
		}
	}
}

func FuzzCleanJSON(f *testing.F) {
	f.Add(`"\u0000\ud800\\u"`)
	f.Fuzz(func(t *testing.T, s string) {
		got, _ := cleanJSON([]byte(s))
		if again, mangled := cleanJSON(got); mangled || string(again) != string(got) {
			t.Errorf("cleanJSON(%q) = %q, and of that %q", s, got, again)
		}
	})
}

func TestOptions(t *testing.T) {
	for arg, want := range map[string]string{
		"--postgres=postgres://u:secret@h:port/db": "want a URL such as postgres://cortex@db.internal/audit",
		"--postgres=:secret":                       "want a URL such as",
		"--postgres-content=perhaps":               "want true or false",
		"--postgres-retain=12h":                    "want days, such as 90d",
		"--postgres-retain=99999999d":              "want days",
		"--postgres-retain=-1d":                    "want days",
	} {
		f := flag.NewFlagSet("", flag.ContinueOnError)
		f.SetOutput(io.Discard)
		new(Options).AddFlags(f)
		err := f.Parse([]string{arg})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
	f, o := flag.NewFlagSet("", flag.ContinueOnError), &Options{}
	o.AddFlags(f)
	if err := f.Parse([]string{"--postgres=postgres://u:secret@h/db", "--postgres-content=false", "--postgres-retain=90d"}); err != nil || !o.NoContent || o.Retain != 90*24*time.Hour {
		t.Errorf("Parse = %v, and the options are %+v", err, o)
	}
	c, err := parse(o.Postgres)
	if err != nil || where(c) != "h:5432/db" {
		t.Errorf("parse = %v, %v", where(c), err)
	}
	if err := hide(c, &pgconn.PgError{Message: "is secret the password?", Code: "28P01"}); strings.Contains(err.Error(), "secret") || codeOf(err) != "28P01" {
		t.Errorf("hide = %v", err)
	}
	if err := hide(c, errors.New("other")); err.Error() != "other" {
		t.Errorf("hide = %v", err)
	}
}
