"""The GitHub Action: reports on the lines that a pull request changes, as a review with suggestions or annotations."""
