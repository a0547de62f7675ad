package router

// Read returns the number of texts that Put and Learn have parsed.
func (x *Index) Read() int { return x.reader.texts }

// Terms returns what the cards of all agents have of terms.
func (x *Index) Terms() (n int) {
	for _, a := range x.agents {
		for i := range a.texts {
			n += len(a.texts[i].terms)
		}
		n += len(a.grams)
	}
	return n
}
