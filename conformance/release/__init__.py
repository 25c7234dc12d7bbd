"""`assay release OLD NEW`: what changed from one release of a package to another, in documents, answers and findings.

Each release has an environment of its own, kept between runs, in which nothing else differs. Every backend that its
package has is asked for the same table's cases there, and the two records are compared.
"""
