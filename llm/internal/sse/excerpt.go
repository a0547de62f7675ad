package sse

import (
	"html"
	"regexp"
	"strings"
)

var title = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// Excerpt returns the part of an unknown body to show: the title of a page, or the beginning.
func Excerpt(body []byte) string {
	if m := title.FindSubmatch(body); m != nil {
		return html.UnescapeString(strings.TrimSpace(string(m[1])))
	}
	const most = 200
	return strings.ToValidUTF8(string(body[:min(len(body), most)]), "?")
}
