// Package screen prints for people: a text is wrapped to the width of a terminal, and is what it is elsewhere; a bar is drawn on a terminal alone.
package screen
