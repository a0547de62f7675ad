package cli

import "testing"

func TestFileSize(t *testing.T) {
	for in, want := range map[string]string{
		"64MB": "64MB", "64 mb": "64MB", "1500": "1500B", "2000": "2KB", "4GB": "4GB", "1B": "1B",
		"5GB": "", "0": "", "-1MB": "", "MB": "", "": "", "1e9": "", "99999999999999999999": "", "1TB": "",
	} {
		var f fileSize
		err := f.Set(in)
		if got := f.String(); want == "" && err == nil || want != "" && (err != nil || got != want) {
			t.Errorf("Set(%q) = %v, which is %s, want %q", in, err, got, want)
		}
	}
}
