package main

import (
	"fmt"
	"os"
	"strings"
)

// count returns how often each word occurs in a text.
func count(text string) map[string]int {
	counts := make(map[string]int)
	for _, word := range strings.Fields(text) {
		???
	}
	return counts
}

func main() {
	content, err := os.ReadFile(???)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(count(string(content)))
}
