package cli

import "testing"

func TestLocale(t *testing.T) {
	for _, test := range []struct{ all, messages, lang, want string }{
		{"", "", "de_DE.UTF-8", "de-DE"},
		{"", "fr_CA", "de_DE.UTF-8", "fr-CA"},
		{"sr_RS@latin", "fr_CA", "de_DE.UTF-8", "sr-RS"},
		{"C", "", "de_DE.UTF-8", ""},
		{"", "", "C.UTF-8", ""},
		{"", "", "", ""},
	} {
		t.Setenv("LC_ALL", test.all)
		t.Setenv("LC_MESSAGES", test.messages)
		t.Setenv("LANG", test.lang)
		if got := locale(); got != test.want {
			t.Errorf("locale of %+v is %q", test, got)
		}
	}
}
