package transport

import (
	"bytes"
	"strings"
)

// NamedFiles returns the objects of a tenant to which an encoded event or an entry of a log refers, possibly with duplicates. It only searches for
// references, so that it also works on data that is damaged or of another version.
func NamedFiles(tenant string, encoded []byte) []Object {
	var all []Object
	for {
		at := bytes.Index(encoded, []byte(fileScheme))
		if at < 0 {
			return all
		}
		encoded = encoded[at+len(fileScheme):]
		end := 0
		for end < len(encoded) && addressByte(encoded[end]) { // not a search for the quote, which may be far away from each of many schemes
			end++
		}
		if end == len(encoded) || encoded[end] != '"' || end > maxFileURL {
			continue
		}
		address := strings.ReplaceAll(string(encoded[:end]), `\/`, "/") // some encoders escape a slash in JSON
		if o, ok := objectAt(tenant, address); ok {
			all = append(all, o)
		}
	}
}

// maxFileURL bounds the length of a reference after its scheme, in bytes: three ids, each byte of which may be escaped as three.
const maxFileURL = 3*3*MaxID + 2*len(`\/`)

// addressByte reports whether a reference may have c after its scheme.
func addressByte(c byte) bool { return plainByte(c) || c == '=' || c == '/' || c == '\\' }

// objectAt parses a reference after its scheme.
func objectAt(tenant, address string) (Object, bool) {
	o := Object{Tenant: tenant}
	token := strings.Split(address, "/")
	if len(token) != 3 {
		return o, false
	}
	for i, to := range []*string{&o.ContextID, &o.From, &o.ID} {
		id, err := Unescape(token[i])
		if err != nil || CheckID(id) != nil {
			return o, false
		}
		*to = id
	}
	return o, true
}
