package transport

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// namedSlowly is NamedFiles by a search for the quote that ends a string, which reads the rest of the message for each scheme.
func namedSlowly(tenant string, encoded []byte) (all []Object) {
	for {
		at := bytes.Index(encoded, []byte(fileScheme))
		if at < 0 {
			return all
		}
		encoded = encoded[at+len(fileScheme):]
		end := bytes.IndexByte(encoded, '"')
		if end < 0 || end > maxFileURL {
			continue
		}
		if o, ok := objectAt(tenant, strings.ReplaceAll(string(encoded[:end]), `\/`, "/")); ok {
			all = append(all, o)
		}
	}
}

// TestNamedFilesAnyData compares NamedFiles with a slower function on random sequences of what is in references and around them.
func TestNamedFilesAnyData(t *testing.T) {
	longest := strings.Repeat("=E4", MaxID)
	pieces := []string{
		fileScheme, fileScheme, fileScheme, fileScheme + "c/user/f", fileScheme + `c\/user\/f"`, fileScheme + `_/a=2Fb/F-1"`, "cortex-file", ":", "/", "/", `\/`, `\`, `"`, `"`, `\"`,
		"a", "_", "=", "=2F", "=2f", "=5F", "-", ".", " ", "\n", "\x00", "\xff", "ä", "{", "c1", longest, longest + "/" + longest + `\/` + longest, longest + "0",
	}
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 30_000 {
		var b []byte
		for range r.IntN(20) {
			b = append(b, pieces[r.IntN(len(pieces))]...)
		}
		got, want := NamedFiles("t", b), namedSlowly("t", b)
		if !slices.Equal(got, want) {
			t.Fatalf("NamedFiles(%q) = %v, want %v", b, got, want)
		}
		found += len(got)
	}
	if found < 1000 {
		t.Errorf("%d references were found, which compares little", found)
	}
}

// TestNamedFilesOfManySchemes has a message of 4 MiB of schemes, which takes some milliseconds.
func TestNamedFilesOfManySchemes(t *testing.T) {
	for _, piece := range []string{fileScheme, fileScheme + "c/user/f", fileScheme + `\/`} {
		b := bytes.Repeat([]byte(piece), 4<<20/len(piece))
		began := time.Now()
		got := NamedFiles("", b)
		if took := time.Since(began); len(got) > 0 || took > 2*time.Second {
			t.Errorf("NamedFiles of 4 MiB of %s = %v after %v", piece, got, took)
		}
	}
}

func BenchmarkNamedFilesOfManySchemes(b *testing.B) {
	encoded := bytes.Repeat([]byte(fileScheme), 4<<20/len(fileScheme))
	b.SetBytes(int64(len(encoded)))
	for b.Loop() {
		NamedFiles("", encoded)
	}
}
