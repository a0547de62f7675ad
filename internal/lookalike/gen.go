//go:build ignore

// This program makes confusables.txt from the data of Unicode 15.0, the version of Go's own tables:
//
//	https://www.unicode.org/Public/security/15.0.0/confusables.txt
//	https://www.unicode.org/Public/15.0.0/ucd/Unihan.zip, the fields kSpoofingVariant of Unihan_Variants.txt
//
// It takes their paths as arguments, and leaves out what the package finds without a table: marks, and compatible characters.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const head = `# Characters that are drawn alike: a prototype, then those that look like it. Made by gen.go from confusables.txt of UTS #39 and
# kSpoofingVariant of Unihan_Variants.txt, both of Unicode 15.0. The file says less than they do: see gen.go.
#
# Copyright © 1991-2022 Unicode, Inc. All rights reserved. Distributed under the Terms of Use in
# https://www.unicode.org/copyright.html; the permission notice is in UNICODE-LICENSE.
`

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: gen CONFUSABLES UNIHAN_VARIANTS > confusables.txt")
	}
	confusables, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	variants, err := os.ReadFile(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	if err := write(os.Stdout, confusables, variants); err != nil {
		log.Fatal(err)
	}
}

func write(w io.Writer, confusables, variants []byte) error {
	to := map[rune]string{} // the prototype
	for line := range lines(confusables) {
		fields := strings.Split(line, ";") // 0441 ; 0063 ; MA
		if len(fields) < 3 {
			continue
		}
		from, err := text(fields[0])
		if err != nil {
			return err
		}
		proto, err := text(fields[1])
		if err != nil {
			return err
		}
		to[[]rune(from)[0]] = proto
	}
	for line := range lines(variants) {
		fields := strings.Fields(line) // U+6627	kSpoofingVariant	U+6629
		if len(fields) < 3 || fields[1] != "kSpoofingVariant" {
			continue
		}
		for i := range fields {
			fields[i] = strings.TrimPrefix(fields[i], "U+")
		}
		from, err := text(fields[0])
		if err != nil {
			return err
		}
		for _, other := range fields[2:] { // both characters have an entry: the lower one is the prototype
			proto, err := text(other)
			if err != nil {
				return err
			}
			if r := []rune(from)[0]; to[r] == "" && proto < from {
				to[r] = proto
			}
		}
	}
	alike := map[string][]string{}
	for r, proto := range to {
		for next := proto; next != ""; next = to[[]rune(proto)[0]] { // a prototype may have one, too
			if proto = next; utf8.RuneCountInString(proto) > 1 {
				break
			}
		}
		if unicode.In(r, unicode.M, unicode.C) || norm.NFKD.String(string(r)) == norm.NFKD.String(proto) {
			continue
		}
		alike[code(proto)] = append(alike[code(proto)], code(string(r)))
	}
	var b bytes.Buffer
	b.WriteString(head)
	for _, proto := range slices.Sorted(maps.Keys(alike)) {
		slices.Sort(alike[proto])
		fmt.Fprintf(&b, "%s=%s\n", proto, strings.Join(alike[proto], " "))
	}
	_, err := w.Write(b.Bytes())
	return err
}

// lines yields the lines of a file of Unicode without comments and empty lines.
func lines(b []byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		in := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(b, []byte("\ufeff"))))
		for in.Scan() {
			line, _, _ := strings.Cut(in.Text(), "#")
			if strings.TrimSpace(line) != "" && !yield(line) {
				return
			}
		}
	}
}

// text decodes code points in hexadecimal.
func text(codes string) (string, error) {
	var b strings.Builder
	for c := range strings.FieldsSeq(codes) {
		n, err := strconv.ParseUint(c, 16, 21)
		if err != nil {
			return "", err
		}
		b.WriteRune(rune(n))
	}
	if b.Len() == 0 {
		return "", fmt.Errorf("no code point in %q", codes)
	}
	return b.String(), nil
}

// code encodes text as in confusables.txt.
func code(text string) string {
	var all []string
	for _, r := range text {
		all = append(all, fmt.Sprintf("%04X", r))
	}
	return strings.Join(all, "+")
}
