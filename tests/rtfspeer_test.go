package tests

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// curl is a stand-in for the program of that name: curl URL [-H HEADER] [-d BODY]. Addresses of the README are those that the environment has for them.
func curl() {
	named := strings.NewReplacer("127.0.0.1:8430", os.Getenv("RTFS"), "127.0.0.1:8431", os.Getenv("SPLITTER"))
	method, url, body, header := http.MethodGet, "", "", http.Header{}
	for args := os.Args[1:]; len(args) > 0; args = args[1:] {
		switch arg := named.Replace(args[0]); {
		case (arg == "-d" || arg == "-H") && len(args) > 1:
			args = args[1:]
			if value := named.Replace(args[0]); arg == "-d" {
				method, body = http.MethodPost, value
			} else {
				key, value, _ := strings.Cut(value, ": ")
				header.Set(key, value)
			}
		default:
			url = arg
		}
	}
	if err := exchange(method, url, body, header); err != nil {
		fmt.Fprintln(os.Stderr, "curl:", err)
		os.Exit(1)
	}
}

func exchange(method, url, body string, header http.Header) error {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = header
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	_, err = io.Copy(os.Stdout, a.Body)
	return err
}
