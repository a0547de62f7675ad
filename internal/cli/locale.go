package cli

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// timeZone returns the IANA name of the time zone of this machine, or of the variable TZ; "" when it has none.
func timeZone() string {
	name := time.Local.String()
	if name == "Local" {
		link, err := filepath.EvalSymlinks("/etc/localtime")
		if err != nil {
			return ""
		}
		if _, name, _ = strings.Cut(filepath.ToSlash(link), "zoneinfo/"); name == "" {
			return ""
		}
	}
	if _, err := time.LoadLocation(name); err != nil || strings.HasPrefix(name, "/") {
		return ""
	}
	return name
}

// locale returns the user's language and country as a BCP 47 tag, from the variables that say them (POSIX, 8.2); "" when none does.
func locale() string {
	for _, key := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		if v := os.Getenv(key); v != "" {
			v, _, _ = strings.Cut(v, ".")
			v, _, _ = strings.Cut(v, "@")
			if v == "C" || v == "POSIX" {
				return ""
			}
			return strings.ReplaceAll(v, "_", "-")
		}
	}
	return ""
}
