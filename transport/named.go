package transport

import (
	"bytes"
	"strings"
)

// NamedFiles returns the objects of a tenant of which something speaks, such as an encoded event or an entry of a log, some perhaps several times.
// It reads nothing else in it, so that what is damaged, or of another build, still says what it needs.
func NamedFiles(tenant string, encoded []byte) []Object {
	var all []Object
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
		address := strings.ReplaceAll(string(encoded[:end]), `\/`, "/") // as some write a slash in JSON
		if o, ok := objectAt(tenant, address); ok {
			all = append(all, o)
		}
	}
}

// maxFileURL bounds what is behind the scheme of a reference: three ids, each byte of which may take three.
const maxFileURL = 3*3*MaxID + 2*len(`\/`)

// objectAt reads what is behind the scheme of a reference.
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
